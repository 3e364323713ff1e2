/* Takes one connection, receives updates as fenced messages, and says how many came.
 *
 *     server ADDRESS
 *
 * It makes a certificate of its own, and prints its address and the fingerprint that the client needs. It waits
 * by poll(2) on the descriptor of its endpoint, as a program does that waits for other descriptors, too. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "common.h"

struct viewer {
    qs_endpoint endpoint;
    qs_connection connection;
    qs_messages updates;
    uint64_t segment;
    unsigned received;
    int finished;
};

/* Takes all messages that are there. */
static void receive(struct viewer *viewer)
{
    char buffer[2000];
    size_t length;
    qs_message history = {.size = sizeof history};

    for (;;) {
        qs_status status =
            qs_messages_receive(viewer->updates, buffer, sizeof buffer, &length, &history, 0);
        if (status == QS_WOULD_BLOCK)
            return; /* QS_EVENT_MESSAGE tells of the next one. */
        if (status == QS_END) {
            viewer->finished = 1;
            return;
        }
        must(status, "receiving a message");
        /* Within a segment messages come as they arrive; from one to the next the order holds. */
        if (history.segment < viewer->segment) {
            fprintf(stderr, "a message crossed a fence\n");
            exit(1);
        }
        viewer->segment = history.segment;
        viewer->received++;
    }
}

/* Does whatever can be done now. Each call that would block has an event that tells when to come back. */
static void go_on(struct viewer *viewer)
{
    qs_status status;

    if (viewer->connection == 0) {
        status = qs_endpoint_accept(viewer->endpoint, &viewer->connection, 0);
        if (status == QS_WOULD_BLOCK)
            return;
        must(status, "accepting a connection");
    }
    if (viewer->updates == 0) {
        status = qs_connection_accept_messages(viewer->connection, QS_UNI, &viewer->updates, 0);
        if (status == QS_WOULD_BLOCK)
            return;
        must(status, "accepting a stream of messages");
    }
    if (!viewer->finished)
        receive(viewer);
}

int main(int argc, char **argv)
{
    qs_config config;
    struct viewer viewer = {0};
    char text[80];
    size_t length;
    int descriptor, over = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: server ADDRESS\n");
        return 2;
    }
    must(qs_config_new(&config), "making a configuration");
    must(qs_config_add_protocol(config, PROTOCOL), "naming the protocol");
    must(qs_config_set_self_signed(config, "localhost"), "making a certificate");
    must(qs_endpoint_server(config, argv[1], &viewer.endpoint), "making an endpoint");
    must(qs_endpoint_address(viewer.endpoint, text, sizeof text, &length), "asking for the address");
    printf("address %s\n", text);
    must(qs_config_fingerprint(config, text, sizeof text, &length), "asking for the fingerprint");
    printf("fingerprint %s\n", text);
    fflush(stdout);
    must(qs_free(config), "freeing the configuration");

    must(qs_endpoint_descriptor(viewer.endpoint, &descriptor), "asking for the descriptor");
    go_on(&viewer);
    while (!over) {
        struct pollfd wait = {.fd = descriptor, .events = POLLIN};
        qs_event events[16];
        size_t count;
        int ready = poll(&wait, 1, TIMEOUT_MS);

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            fprintf(stderr, "nothing happens any more: %s\n", ready < 0 ? strerror(errno) : "timeout");
            return 1;
        }
        qs_status status = qs_endpoint_poll_events(viewer.endpoint, events, 16, &count, 0);
        if (status == QS_WOULD_BLOCK)
            continue;
        must(status, "asking for events");
        for (size_t i = 0; i < count; i++)
            over |= events[i].kind == QS_EVENT_CLOSED;
        go_on(&viewer);
    }

    qs_close why = {.size = sizeof why};
    must(qs_connection_closed(viewer.connection, &why, 0), "asking why the connection ended");
    printf("received %u, closed with code %" PRIu64 ": %s\n", viewer.received, why.code, why.reason);
    must(qs_free(viewer.endpoint), "freeing the endpoint and what was made from it");
    return viewer.finished ? 0 : 1;
}
