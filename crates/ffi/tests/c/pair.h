/* What tests in C have in common: checks, and both ends of a connection in one process. */
#ifndef PAIR_H
#define PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quickset.h"

/* Longer than anything takes, unless something watches the program and makes it slow. */
#ifndef LONG_MS
#define LONG_MS 20000
#endif

static int failures;

/* A call that comes to something else ends the program. */
#define IS(call, expected)                                                                                \
    do {                                                                                                  \
        qs_status got_ = (call);                                                                          \
        if (got_ != (expected)) {                                                                         \
            fprintf(stderr, "line %d: %s is %d and not %s (%s)\n", __LINE__, #call, got_, #expected,      \
                    qs_error_message());                                                                  \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

#define CHECK(what)                                                                                       \
    do {                                                                                                  \
        if (!(what)) {                                                                                    \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #what);                                        \
            failures++;                                                                                   \
        }                                                                                                 \
    } while (0)

static qs_endpoint server, client;
static qs_connection there, here;

/* A configuration for both sides: the client trusts the key that the server has. */
static inline qs_config both_sides(void)
{
    qs_config config;
    char fingerprint[100];
    size_t length;

    IS(qs_config_new(&config), QS_OK);
    IS(qs_config_add_protocol(config, "test/1"), QS_OK);
    IS(qs_config_set_self_signed(config, "localhost"), QS_OK);
    IS(qs_config_set_number(config, QS_OPTION_MAX_MESSAGE, 100000), QS_OK);
    IS(qs_config_set_number(config, QS_OPTION_SEND_BUFFER, 100000), QS_OK);
    IS(qs_config_set_number(config, QS_OPTION_HANDSHAKE_TIMEOUT_MS, LONG_MS), QS_OK);
    IS(qs_config_set_number(config, QS_OPTION_IDLE_TIMEOUT_MS, 2 * LONG_MS), QS_OK);
    IS(qs_config_fingerprint(config, fingerprint, sizeof fingerprint, &length), QS_OK);
    IS(qs_config_trust_fingerprint(config, fingerprint), QS_OK);
    return config;
}

/* Connects `here` to `there`. */
static inline void connect_both(void)
{
    qs_config config = both_sides();
    char text[100];
    size_t length;

    alarm(900); /* A call that never returns ends the program. */
    IS(qs_endpoint_server(config, "127.0.0.1:0", &server), QS_OK);
    IS(qs_endpoint_address(server, text, sizeof text, &length), QS_OK);
    IS(qs_endpoint_client("127.0.0.1:0", &client), QS_OK);
    IS(qs_endpoint_connect(client, config, text, "localhost", &here), QS_OK);
    IS(qs_connection_ready(here, LONG_MS), QS_OK);
    IS(qs_endpoint_accept(server, &there, LONG_MS), QS_OK);
    IS(qs_free(config), QS_OK);
}

/* Bytes go there and back: the connection goes on. */
static inline void goes_on(void)
{
    qs_stream out, in;
    qs_status status;
    char buffer[16];
    uint64_t ours, theirs;
    size_t n;

    IS(qs_connection_open_stream(here, QS_BI, &out, LONG_MS), QS_OK);
    IS(qs_stream_write(out, "there", 5, &n, LONG_MS), QS_OK);
    IS(qs_stream_finish(out), QS_OK);
    IS(qs_stream_id(out, &ours), QS_OK);
    /* Streams that a test has left come before it. */
    for (;;) {
        IS(qs_connection_accept_stream(there, QS_BI, &in, LONG_MS), QS_OK);
        IS(qs_stream_id(in, &theirs), QS_OK);
        if (ours == theirs)
            break;
        IS(qs_free(in), QS_OK);
    }
    IS(qs_stream_read(in, buffer, sizeof buffer, &n, LONG_MS), QS_OK);
    CHECK(n == 5 && memcmp(buffer, "there", 5) == 0);
    IS(qs_stream_write(in, "back", 4, &n, LONG_MS), QS_OK);
    IS(qs_stream_finish(in), QS_OK);
    IS(qs_stream_read(out, buffer, sizeof buffer, &n, LONG_MS), QS_OK);
    CHECK(n == 4 && memcmp(buffer, "back", 4) == 0);
    status = qs_stream_read(out, buffer, sizeof buffer, &n, LONG_MS);
    CHECK(status == QS_END);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);
}

#endif
