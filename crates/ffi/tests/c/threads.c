/* Threads that use the same handles, and free them under each other's hands: each call comes to something that
 * the header names, and the connection goes on.
 *
 *     threads [ROUNDS] */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "pair.h"

enum { THREADS = 4, SHARED = 8 };

/* Streams and streams of messages, or what was one. */
static _Atomic uint64_t shared[SHARED];
static atomic_int wrong;
static int rounds = 5000;

/* A fault of the caller or of the library; the rest is what happens among threads. */
static void look(qs_status status, const char *what)
{
    if (status == QS_INTERNAL || status == QS_INVALID || status == QS_FORKED || status == QS_SYSTEM) {
        fprintf(stderr, "%s is %d (%s)\n", what, status, qs_error_message());
        wrong++;
    }
}

#define LOOK(call) look((call), #call)

static void *plays(void *data)
{
    uint32_t random = *(uint32_t *)data;
    char buffer[500] = {0};
    qs_event events[4];
    qs_stats stats = {.size = sizeof stats};
    uint64_t made, number;
    uint32_t outcome;
    size_t n;

    for (int i = 0; i < rounds; i++) {
        random = random * 1664525 + 1013904223;
        _Atomic uint64_t *slot = &shared[random >> 8 & (SHARED - 1)];
        uint64_t handle = *slot;
        uint32_t both = random >> 16 & 1 ? QS_BI : QS_UNI;
        made = 0;
        switch (random >> 24 & 15) {
        case 0:
            LOOK(qs_connection_open_stream(here, both, &made, 0));
            break;
        case 1:
            LOOK(qs_connection_open_messages(here, both, &made, 0));
            break;
        case 2:
            LOOK(qs_connection_accept_stream(there, both, &made, 0));
            break;
        case 3:
            LOOK(qs_connection_accept_messages(there, both, &made, 1));
            break;
        case 4:
            LOOK(qs_stream_write(handle, buffer, sizeof buffer, &n, 0));
            break;
        case 5:
            LOOK(qs_stream_read(handle, buffer, sizeof buffer, &n, 1));
            break;
        case 6:
            LOOK(qs_stream_finish(handle));
            LOOK(qs_stream_finished(handle, 0));
            break;
        case 7:
            LOOK(qs_stream_reset(handle, 1));
            break;
        case 8:
            LOOK(qs_messages_watch(handle));
            LOOK(qs_messages_send(handle, buffer, sizeof buffer, 20, &number, 0));
            LOOK(qs_messages_fence(handle));
            break;
        case 9:
            LOOK(qs_messages_receive(handle, buffer, sizeof buffer, &n, NULL, 1));
            break;
        case 10:
            LOOK(qs_messages_outcome(handle, &number, &outcome, 0));
            LOOK(qs_messages_finish(handle));
            break;
        case 11:
            LOOK(qs_endpoint_poll_events(random & 1 << 20 ? client : server, events, 4, &n, 0));
            break;
        case 12:
            LOOK(qs_connection_stats(random & 1 << 20 ? here : there, &stats));
            LOOK(qs_set_user(handle, random));
            break;
        case 13:
            LOOK(qs_connection_send_datagram(here, buffer, 100, 20, QS_DROP_OLDEST, 0));
            LOOK(qs_connection_receive_datagram(there, buffer, sizeof buffer, &n, 0));
            break;
        default:
            LOOK(qs_free(atomic_exchange(slot, 0)));
        }
        if (made != 0)
            LOOK(qs_free(atomic_exchange(slot, made)));
    }
    return NULL;
}

/* The end of it all, while others use it. */
static void *ends(void *unused)
{
    LOOK(qs_connection_close(there, 5, "over", 4));
    LOOK(qs_free(server));
    LOOK(qs_free(client));
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], last;
    uint32_t seeds[THREADS];

    if (argc > 1)
        rounds = atoi(argv[1]);
    connect_both();
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = (uint32_t)(i * 7919 + 1);
        CHECK(pthread_create(&threads[i], NULL, plays, &seeds[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < SHARED; i++)
        LOOK(qs_free(atomic_exchange(&shared[i], 0)));
    goes_on();

    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, plays, &seeds[i]) == 0);
    CHECK(pthread_create(&last, NULL, ends, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_join(last, NULL) == 0);
    IS(qs_free(here), QS_BAD_HANDLE);
    IS(qs_free(server), QS_BAD_HANDLE);
    return failures != 0 || wrong != 0;
}
