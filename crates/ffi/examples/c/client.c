/* Sends updates as fenced messages: each update is four messages that may overtake each other, and a fence. On
 * a second kind of message, positions with a deadline, it learns what became of each.
 *
 *     client ADDRESS FINGERPRINT
 *
 * It waits in its calls, each with a timeout, as a simple program does. */

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "common.h"

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    qs_config config;
    qs_endpoint endpoint;
    qs_connection connection;
    qs_messages updates;
    uint64_t positions[UPDATES];
    char part[1000];

    if (argc != 3) {
        fprintf(stderr, "usage: client ADDRESS FINGERPRINT\n");
        return 2;
    }
    must(qs_config_new(&config), "making a configuration");
    must(qs_config_add_protocol(config, PROTOCOL), "naming the protocol");
    must(qs_config_trust_fingerprint(config, argv[2]), "trusting the server");
    must(qs_endpoint_client("0.0.0.0:0", &endpoint), "making an endpoint");
    must(qs_endpoint_connect(endpoint, config, argv[1], "localhost", &connection), "beginning a connection");
    must(qs_connection_ready(connection, TIMEOUT_MS), "connecting");

    must(qs_connection_open_messages(connection, QS_UNI, &updates, TIMEOUT_MS), "opening a stream");
    must(qs_messages_set_reliability(updates, "adaptive:screen", -1), "asking for protection");
    must(qs_messages_watch(updates), "asking for outcomes");
    for (int update = 0; update < UPDATES; update++) {
        memset(part, update, sizeof part);
        for (int i = 0; i < PARTS; i++)
            must(qs_messages_send(updates, part, sizeof part, -1, NULL, TIMEOUT_MS), "sending a part");
        /* A position is of use for a quarter of a second. */
        must(qs_messages_send(updates, "x=10 y=20", 9, 250, &positions[update], TIMEOUT_MS),
             "sending a position");
        must(qs_messages_fence(updates), "setting a fence");
        pause_ms(5);
    }
    must(qs_messages_finish(updates), "finishing");

    unsigned arrived = 0, recovered = 0, given_up = 0, late_positions = 0;
    for (;;) {
        uint64_t number;
        uint32_t outcome;
        qs_status status = qs_messages_outcome(updates, &number, &outcome, TIMEOUT_MS);

        if (status == QS_END)
            break;
        must(status, "asking for an outcome");
        switch (outcome) {
        case QS_OUTCOME_RECOVERED:
            recovered++;
            arrived++;
            break;
        case QS_OUTCOME_DELIVERED:
            arrived++;
            break;
        default:
            given_up++;
            /* Only positions have deadlines: of an update all parts arrive. */
            for (int update = 0; update < UPDATES; update++)
                late_positions += positions[update] == number;
        }
    }
    must(qs_messages_finished(updates, TIMEOUT_MS), "waiting for the end");

    qs_stats stats = {.size = sizeof stats};
    must(qs_connection_stats(connection, &stats), "asking for statistics");
    printf("arrived %u, recovered %u, given up %u\n", arrived, recovered, given_up);
    printf("lost %" PRIu64 " packets, sent %" PRIu64 " repair symbols\n", stats.lost_packets, stats.repairs_sent);
    must(qs_connection_close(connection, 7, "done", 4), "closing");
    must(qs_endpoint_wait_idle(endpoint, TIMEOUT_MS), "waiting until the server knows");
    must(qs_free(endpoint), "freeing the endpoint and what was made from it");
    must(qs_free(config), "freeing the configuration");
    return arrived + given_up == UPDATES * (PARTS + 1) && given_up == late_positions ? 0 : 1;
}
