/* What no program should do, and some do: each call returns an error, and nothing else happens. */

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quickset.h"

static int failures;

#define IS(call, expected)                                                                                \
    do {                                                                                                  \
        qs_status got_ = (call);                                                                          \
        if (got_ != (expected)) {                                                                         \
            fprintf(stderr, "line %d: %s is %d and not %s (%s)\n", __LINE__, #call, got_, #expected,      \
                    qs_error_message());                                                                  \
            failures++;                                                                                   \
        }                                                                                                 \
    } while (0)

int main(void)
{
    qs_config config = 0;
    qs_endpoint endpoint = 0;
    qs_connection connection = 0;
    qs_messages messages;
    qs_event event;
    char buffer[100];
    size_t length;
    uint32_t number;

    if (strcmp(qs_version(), "") == 0 || strcmp(qs_error_message(), "") != 0 || qs_error_code() != 0)
        failures++;
    if (strcmp(qs_error_string(QS_OK), "success") != 0 || qs_error_string(-12345) == NULL)
        failures++;

    /* Nothing where something has to be. */
    IS(qs_config_new(NULL), QS_INVALID);
    IS(qs_endpoint_client(NULL, NULL), QS_INVALID);
    IS(qs_config_new(&config), QS_OK);
    IS(qs_config_add_protocol(config, NULL), QS_INVALID);
    IS(qs_config_add_protocol(config, ""), QS_INVALID);
    IS(qs_config_add_protocol(config, "\xff\xfe"), QS_INVALID);
    IS(qs_config_set_identity(config, NULL, 1, NULL, 1), QS_INVALID);
    IS(qs_config_set_identity(config, "", 0, NULL, 0), QS_CONFIG);
    IS(qs_config_trust_roots(config, "no PEM", 6), QS_CONFIG);
    IS(qs_config_trust_fingerprint(config, "sha256:12"), QS_INVALID);
    IS(qs_config_fingerprint(config, buffer, sizeof buffer, &length), QS_CONFIG);
    IS(qs_config_set_protection(config, "magic"), QS_INVALID);
    if (strstr(qs_error_message(), "adaptive") == NULL)
        failures++; /* It says what could be written. */
    IS(qs_config_set_protection(config, "rs:105/100"), QS_OK);
    IS(qs_config_set_number(config, 0, 1), QS_UNSUPPORTED);
    IS(qs_config_set_number(config, QS_OPTION_FEC, 2), QS_INVALID);
    IS(qs_config_set_number(config, QS_OPTION_MAX_MESSAGE, 100), QS_INVALID);
    IS(qs_config_set_number(config, QS_OPTION_MAX_STREAMS_BI, UINT64_MAX), QS_OK);
    IS(qs_config_set_number(config, QS_OPTION_IDLE_TIMEOUT_MS, UINT64_MAX), QS_INVALID);

    /* A server without a certificate, a protocol or an address. */
    IS(qs_endpoint_server(config, "127.0.0.1:0", &endpoint), QS_CONFIG);
    IS(qs_config_set_self_signed(config, "localhost"), QS_OK);
    IS(qs_endpoint_server(config, "127.0.0.1:0", &endpoint), QS_CONFIG);
    IS(qs_config_add_protocol(config, "test/1"), QS_OK);
    IS(qs_endpoint_server(config, "localhost", &endpoint), QS_INVALID);
    IS(qs_endpoint_server(config, NULL, &endpoint), QS_INVALID);
    IS(qs_endpoint_server(config, "192.0.2.1:1", &endpoint), QS_SYSTEM);
    IS(qs_endpoint_server(config, "127.0.0.1:0", &endpoint), QS_OK);

    /* Lengths. */
    IS(qs_config_fingerprint(config, buffer, 71, &length), QS_TOO_SMALL);
    if (length != 72)
        failures++;
    IS(qs_config_fingerprint(config, buffer, 72, &length), QS_OK);
    if (strlen(buffer) != 71)
        failures++;
    IS(qs_config_fingerprint(config, NULL, 0, &length), QS_TOO_SMALL);
    IS(qs_config_fingerprint(config, NULL, 72, &length), QS_INVALID);
    IS(qs_config_fingerprint(config, buffer, SIZE_MAX, &length), QS_INVALID);
    IS(qs_endpoint_close(endpoint, 0, buffer, SIZE_MAX), QS_INVALID);
    IS(qs_endpoint_close(endpoint, UINT64_MAX, NULL, 0), QS_INVALID);
    IS(qs_endpoint_poll_events(endpoint, NULL, 1, &length, 0), QS_INVALID);
    IS(qs_endpoint_poll_events(endpoint, &event, SIZE_MAX / 8, &length, 0), QS_INVALID);
    IS(qs_endpoint_poll_events(endpoint, NULL, 0, &length, 0), QS_OK);

    /* Waiting for what does not come. */
    IS(qs_endpoint_poll_events(endpoint, &event, 1, &length, 0), QS_WOULD_BLOCK);
    IS(qs_endpoint_poll_events(endpoint, &event, 1, &length, 1), QS_TIMED_OUT);
    IS(qs_endpoint_accept(endpoint, &connection, 0), QS_WOULD_BLOCK);
    IS(qs_endpoint_accept(endpoint, &connection, 1), QS_TIMED_OUT);
    IS(qs_endpoint_wait_idle(endpoint, 1000), QS_OK);

    /* Handles of another kind, and none. */
    IS(qs_endpoint_accept(config, &connection, 0), QS_BAD_HANDLE);
    IS(qs_config_add_protocol(endpoint, "x"), QS_BAD_HANDLE);
    IS(qs_stream_finish(endpoint), QS_BAD_HANDLE);
    IS(qs_messages_fence(0), QS_BAD_HANDLE);
    IS(qs_messages_fence(UINT64_MAX), QS_BAD_HANDLE);
    IS(qs_set_user(config, 1), QS_BAD_HANDLE);
    IS(qs_set_user(endpoint, 1), QS_OK);

    /* A connection to somebody who says nothing. */
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    int silent = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(silent, (struct sockaddr *)&place, size) != 0 ||
        getsockname(silent, (struct sockaddr *)&place, &size) != 0)
        return 1;
    snprintf(buffer, sizeof buffer, "127.0.0.1:%u", (unsigned)ntohs(place.sin_port));
    IS(qs_endpoint_connect(endpoint, config, buffer, "localhost", &connection), QS_CONFIG);
    IS(qs_config_trust_anybody(config), QS_OK);
    IS(qs_endpoint_connect(endpoint, config, buffer, "localhost", &connection), QS_OK);
    IS(qs_connection_features(connection, &number), QS_NOT_READY);
    IS(qs_connection_open_messages(connection, QS_UNI, &messages, -1), QS_NOT_READY);
    IS(qs_connection_open_messages(connection, 7, &messages, -1), QS_INVALID);
    IS(qs_connection_closed(connection, NULL, 0), QS_WOULD_BLOCK);
    IS(qs_connection_close(connection, 1, NULL, 0), QS_OK);
    qs_close why = {0};
    IS(qs_connection_closed(connection, &why, 0), QS_INVALID);
    why.size = sizeof why;
    IS(qs_connection_closed(connection, &why, 0), QS_OK);
    if (why.kind != QS_CLOSE_LOCAL || why.size != sizeof why)
        failures++;
    IS(qs_connection_ready(connection, -1), QS_CLOSED);

    /* A child after fork: it is told, and the parent goes on. */
    fflush(NULL);
    /* It answers through a pipe: of its exit code watchers make their own, for what the parent's threads have. */
    int answer[2];
    char fine = 0;
    if (pipe(answer) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        fine = qs_endpoint_accept(endpoint, &connection, -1) == QS_FORKED &&
               qs_config_new(&config) == QS_FORKED && qs_free(endpoint) == QS_FORKED &&
               qs_endpoint_client(NULL, &endpoint) == QS_FORKED &&
               qs_connection_close(connection, 0, NULL, 0) == QS_FORKED && strlen(qs_error_message()) > 0;
        _exit(write(answer[1], &fine, 1) != 1);
    }
    close(answer[1]);
    int state;
    if (child < 0 || read(answer[0], &fine, 1) != 1 || waitpid(child, &state, 0) != child || !fine) {
        fprintf(stderr, "the child was not told that it is one\n");
        failures++;
    }

    close(silent);
    /* Freed, twice, and with the endpoint. */
    IS(qs_free(0), QS_OK);
    IS(qs_free(config), QS_OK);
    IS(qs_free(config), QS_BAD_HANDLE);
    IS(qs_config_add_protocol(config, "x"), QS_BAD_HANDLE);
    IS(qs_free(endpoint), QS_OK);
    IS(qs_free(endpoint), QS_BAD_HANDLE);
    IS(qs_connection_close(connection, 0, NULL, 0), QS_BAD_HANDLE);
    IS(qs_free(connection), QS_BAD_HANDLE);
    return failures != 0;
}
