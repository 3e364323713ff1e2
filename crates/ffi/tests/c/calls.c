/* Both sides in one process: streams of bytes, messages, datagrams, events, and threads that wait. */

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include "pair.h"

/* Waits, by the descriptor, until this event comes, and passes over others. */
static qs_event await_from(qs_endpoint endpoint, uint32_t kind, int line)
{
    int descriptor;
    IS(qs_endpoint_descriptor(endpoint, &descriptor), QS_OK);
    for (;;) {
        struct pollfd wait = {.fd = descriptor, .events = POLLIN};
        qs_event event;
        size_t count;
        if (poll(&wait, 1, LONG_MS) != 1) {
            fprintf(stderr, "line %d: no event %" PRIu32 "\n", line, kind);
            exit(1);
        }
        qs_status status = qs_endpoint_poll_events(endpoint, &event, 1, &count, 0);
        if (status == QS_WOULD_BLOCK)
            continue;
        IS(status, QS_OK);
        if (event.kind == kind)
            return event;
    }
}

#define await(endpoint, kind) await_from(endpoint, kind, __LINE__)

static void connects(void)
{
    qs_config config = both_sides();
    char text[100], fingerprint[100];
    size_t length;
    uint16_t port;
    uint32_t features;

    IS(qs_config_fingerprint(config, fingerprint, sizeof fingerprint, &length), QS_OK);
    IS(qs_endpoint_server(config, "127.0.0.1:0", &server), QS_OK);
    IS(qs_endpoint_port(server, &port), QS_OK);
    CHECK(port != 0);
    IS(qs_endpoint_address(server, text, sizeof text, &length), QS_OK);
    IS(qs_endpoint_client("127.0.0.1:0", &client), QS_OK);

    IS(qs_endpoint_accept(server, &there, 0), QS_WOULD_BLOCK);
    IS(qs_endpoint_connect(client, config, text, "localhost", &here), QS_OK);
    IS(qs_set_user(here, 77), QS_OK);
    qs_event up = await(client, QS_EVENT_CONNECTED);
    CHECK(up.handle == here && up.parent == client && up.user == 77);
    IS(qs_connection_ready(here, 0), QS_OK);
    qs_event came = await(server, QS_EVENT_INCOMING);
    CHECK(came.handle == server);
    IS(qs_endpoint_accept(server, &there, 0), QS_OK);

    IS(qs_connection_protocol(there, text, sizeof text, &length), QS_OK);
    CHECK(length == 6 && memcmp(text, "test/1", 6) == 0);
    IS(qs_connection_peer_fingerprint(here, text, sizeof text, &length), QS_OK);
    CHECK(strcmp(text, fingerprint) == 0);
    IS(qs_connection_peer_fingerprint(there, text, sizeof text, &length), QS_UNSUPPORTED);
    IS(qs_connection_features(here, &features), QS_OK);
    CHECK(features == (QS_FEATURE_FENCES | QS_FEATURE_FEC));
    IS(qs_connection_peer_address(here, text, sizeof text, &length), QS_OK);
    CHECK(strtoul(strrchr(text, ':') + 1, NULL, 10) == port);
    IS(qs_free(config), QS_OK);
}

/* A megabyte there, by events on both sides, and a few bytes back. */
static void bytes(void)
{
    enum { ALL = 1 << 20 };
    static unsigned char data[ALL], got[ALL];
    qs_stream out, in;
    size_t sent = 0, received = 0, n;
    uint64_t ours, theirs;
    int ended = 0;

    for (size_t i = 0; i < ALL; i++)
        data[i] = (unsigned char)(i * 31 + i / 251);
    IS(qs_connection_accept_stream(there, QS_BI, &in, 0), QS_WOULD_BLOCK);
    IS(qs_connection_open_stream(here, QS_BI, &out, LONG_MS), QS_OK);
    IS(qs_stream_set_urgency(out, 8), QS_INVALID);
    IS(qs_stream_set_urgency(out, 1), QS_OK);
    IS(qs_stream_write(out, data, 1000, &sent, 0), QS_OK);
    CHECK(sent == 1000);
    await(server, QS_EVENT_INCOMING_BI);
    IS(qs_connection_accept_stream(there, QS_BI, &in, 0), QS_OK);
    IS(qs_stream_id(out, &ours), QS_OK);
    IS(qs_stream_id(in, &theirs), QS_OK);
    CHECK(ours == theirs);
    while (!ended) {
        /* As much as there is room for. */
        qs_status status = QS_OK;
        while (sent < ALL && status == QS_OK) {
            status = qs_stream_write(out, data + sent, ALL - sent, &n, 0);
            sent += n;
        }
        if (sent == ALL && status == QS_OK && received < ALL) {
            status = qs_stream_finish(out);
            CHECK(status == QS_OK || status == QS_ENDED);
        }
        do {
            status = qs_stream_read(in, got + received, ALL - received, &n, 0);
            received += n;
            if (received == ALL) {
                IS(qs_stream_read(in, got, 1, &n, LONG_MS), QS_END);
                ended = 1;
            }
        } while (status == QS_OK && !ended);
        /* Both would block. What is not written yet has less in front of it than the windows allow. */
        if (sent < ALL)
            await(client, QS_EVENT_WRITABLE);
        else if (!ended)
            await(server, QS_EVENT_READABLE);
    }
    CHECK(memcmp(data, got, ALL) == 0);
    IS(qs_stream_finished(out, LONG_MS), QS_OK);
    IS(qs_stream_write(out, "x", 1, &n, 0), QS_ENDED);

    /* Of what nobody reads, no more is taken than the windows allow. */
    qs_stream unread, unread_there;
    qs_status status;
    IS(qs_connection_open_stream(here, QS_UNI, &unread, LONG_MS), QS_OK);
    do
        status = qs_stream_write(unread, data, ALL, &n, 0);
    while (status == QS_OK);
    IS(status, QS_WOULD_BLOCK);
    IS(qs_connection_accept_stream(there, QS_UNI, &unread_there, LONG_MS), QS_OK);
    IS(qs_stream_reset(unread, 3), QS_OK);
    IS(qs_free(unread), QS_OK);
    IS(qs_free(unread_there), QS_OK);

    /* The other direction is reset, and the reader has the code. */
    IS(qs_stream_write(in, "back", 4, &n, LONG_MS), QS_OK);
    IS(qs_stream_read(out, got, sizeof got, &n, LONG_MS), QS_OK);
    CHECK(n == 4 && memcmp(got, "back", 4) == 0);
    IS(qs_stream_read(out, got, sizeof got, &n, 0), QS_WOULD_BLOCK);
    IS(qs_stream_read(out, got, 0, &n, 0), QS_OK);
    IS(qs_stream_reset(in, UINT64_MAX), QS_INVALID);
    IS(qs_stream_reset(in, 4242), QS_OK);
    await(client, QS_EVENT_READABLE);
    IS(qs_stream_read(out, got, sizeof got, &n, 0), QS_RESET);
    CHECK(qs_error_code() == 4242);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);
}

static void stops(void)
{
    qs_stream out, in;
    size_t n;

    IS(qs_connection_open_stream(here, QS_UNI, &out, LONG_MS), QS_OK);
    IS(qs_stream_read(out, &n, sizeof n, &n, 0), QS_ENDED);
    IS(qs_stream_write(out, "x", 1, &n, LONG_MS), QS_OK);
    IS(qs_connection_accept_stream(there, QS_UNI, &in, LONG_MS), QS_OK);
    IS(qs_stream_write(in, "x", 1, &n, 0), QS_ENDED);
    IS(qs_stream_stop(in, 99), QS_OK);
    IS(qs_stream_stop(in, 99), QS_ENDED);
    IS(qs_stream_finished(out, LONG_MS), QS_STOPPED);
    CHECK(qs_error_code() == 99);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);
}

static void messages(void)
{
    static char long_one[100001];
    qs_messages out, in;
    uint64_t number, told;
    uint32_t outcome;
    size_t n;
    char buffer[16];
    qs_message history = {.size = sizeof history};
    qs_message_stats stats = {.size = sizeof stats};

    IS(qs_connection_open_messages(here, QS_UNI, &out, LONG_MS), QS_OK);
    IS(qs_messages_outcome(out, &told, &outcome, 0), QS_UNSUPPORTED);
    IS(qs_messages_supersede(out, 0), QS_UNSUPPORTED);
    IS(qs_messages_watch(out), QS_OK);
    IS(qs_messages_outcome(out, &told, &outcome, 0), QS_WOULD_BLOCK);
    IS(qs_messages_set_reliability(out, "nonsense", -1), QS_INVALID);
    IS(qs_messages_set_reliability(out, "adaptive:messages", -1), QS_OK);
    IS(qs_messages_send(out, long_one, sizeof long_one, -1, &number, 0), QS_TOO_LONG);
    CHECK(qs_error_code() == 100000);
    IS(qs_messages_send(out, NULL, 0, -1, &number, LONG_MS), QS_OK);
    CHECK(number == 0);
    IS(qs_messages_fence(out), QS_OK);
    IS(qs_messages_send(out, "second", 6, -1, &number, LONG_MS), QS_OK);
    CHECK(number == 1);
    /* Its time is over before it can leave. */
    IS(qs_messages_send(out, "late", 4, 0, &number, LONG_MS), QS_OK);
    CHECK(number == 2);

    IS(qs_connection_accept_messages(there, QS_UNI, &in, LONG_MS), QS_OK);
    IS(qs_messages_receive(in, buffer, 0, &n, &history, LONG_MS), QS_OK);
    CHECK(n == 0 && history.segment == 0 && history.size == sizeof history);
    IS(qs_messages_receive(in, buffer, 5, &n, &history, LONG_MS), QS_TOO_SMALL);
    CHECK(n == 6);
    IS(qs_messages_receive(in, buffer, 6, &n, &history, 0), QS_OK);
    CHECK(n == 6 && memcmp(buffer, "second", 6) == 0 && history.segment == 1);
    IS(qs_messages_receive(in, buffer, 6, &n, NULL, 0), QS_WOULD_BLOCK);

    IS(qs_messages_finish(out), QS_OK);
    IS(qs_messages_finished(out, LONG_MS), QS_OK);
    await(server, QS_EVENT_MESSAGE);
    IS(qs_messages_receive(in, buffer, 6, &n, NULL, LONG_MS), QS_END);
    int seen = 0;
    while (qs_messages_outcome(out, &told, &outcome, LONG_MS) == QS_OK) {
        seen |= 1 << told;
        CHECK(outcome == (told == 2 ? QS_OUTCOME_DROPPED : QS_OUTCOME_DELIVERED));
    }
    CHECK(seen == 7);
    IS(qs_messages_stats(out, &stats), QS_OK);
    CHECK(stats.queued == 3 && stats.on_time == 2 && stats.dropped == 1 && stats.arrived_bytes == 6);
    IS(qs_messages_send(out, "x", 1, -1, NULL, 0), QS_ENDED);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);
}

static void datagrams(void)
{
    size_t most, n;
    char buffer[4];
    static char far_too_long[200000];

    IS(qs_connection_max_datagram(here, &most), QS_OK);
    CHECK(most >= 1000);
    IS(qs_connection_receive_datagram(there, buffer, sizeof buffer, &n, 0), QS_WOULD_BLOCK);
    IS(qs_connection_send_datagram(here, far_too_long, sizeof far_too_long, -1, 0, 0), QS_TOO_LONG);
    IS(qs_connection_send_datagram(here, "hello", 5, -1, 2, 0), QS_INVALID);
    IS(qs_connection_send_datagram(here, "hello", 5, 1000, QS_DROP_OLDEST, 0), QS_OK);
    IS(qs_connection_flush_datagrams(here), QS_OK);
    qs_event event = await(server, QS_EVENT_DATAGRAM);
    CHECK(event.handle == there);
    IS(qs_connection_receive_datagram(there, buffer, sizeof buffer, &n, 0), QS_TOO_SMALL);
    CHECK(n == 5);
    char room[5];
    IS(qs_connection_receive_datagram(there, room, sizeof room, &n, 0), QS_OK);
    CHECK(n == 5 && memcmp(room, "hello", 5) == 0);

    /* More than there is room for, without waiting: it is refused, and told when to go on. */
    int i = 0;
    while (i < 1000000 && qs_connection_send_datagram(here, far_too_long, 1000, -1, 0, 0) == QS_OK)
        i++;
    CHECK(i < 1000000);
    await(client, QS_EVENT_DATAGRAM_ROOM);
    IS(qs_connection_send_datagram(here, far_too_long, 1000, -1, 0, LONG_MS), QS_OK);
}

static void *waits(void *data)
{
    static char buffer[10];
    qs_stream stream = *(qs_stream *)data;
    size_t n;
    return (void *)(intptr_t)qs_stream_read(stream, buffer, sizeof buffer, &n, -1);
}

static void *accepts(void *data)
{
    qs_connection none;
    (void)data;
    return (void *)(intptr_t)qs_endpoint_accept(server, &none, -1);
}

/* What another thread waits for is freed. */
static void frees(void)
{
    pthread_t thread;
    qs_stream stream;
    void *status;
    qs_stats stats = {.size = sizeof stats};

    IS(qs_connection_stats(here, &stats), QS_OK);
    CHECK(stats.size == sizeof stats && stats.sent_packets > 0 && stats.rtt_us > 0 && stats.mtu >= 1200);
    stats.size = 16;
    IS(qs_connection_stats(here, &stats), QS_OK);
    CHECK(stats.size == 16);

    IS(qs_connection_open_stream(here, QS_BI, &stream, LONG_MS), QS_OK);
    CHECK(pthread_create(&thread, NULL, waits, &stream) == 0);
    struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL); /* In most runs it waits by now; right is the result in any case. */
    IS(qs_free(stream), QS_OK);
    CHECK(pthread_join(thread, &status) == 0);
    CHECK((intptr_t)status == QS_BAD_HANDLE);

    char address[100];
    size_t length;
    IS(qs_endpoint_address(server, NULL, 0, &length), QS_TOO_SMALL);
    IS(qs_endpoint_address(server, address, length, &length), QS_OK);
    CHECK(strncmp(address, "127.0.0.1:", 10) == 0 && strlen(address) == length);

    qs_messages out;
    uint64_t number;
    uint32_t outcome;
    IS(qs_connection_open_messages(here, QS_UNI, &out, LONG_MS), QS_OK);
    IS(qs_messages_watch(out), QS_OK);
    IS(qs_messages_send(out, "last", 4, -1, NULL, LONG_MS), QS_OK);

    IS(qs_connection_close(here, 7, "bye", 3), QS_OK);
    /* It may arrive, and most often that is not known any more. */
    IS(qs_messages_outcome(out, &number, &outcome, LONG_MS), QS_OK);
    CHECK(number == 0 && (outcome == QS_OUTCOME_UNKNOWN || outcome == QS_OUTCOME_DELIVERED));
    IS(qs_messages_outcome(out, &number, &outcome, LONG_MS), QS_END);
    qs_event event = await(server, QS_EVENT_CLOSED);
    CHECK(event.handle == there);
    qs_close why = {.size = sizeof why};
    IS(qs_connection_closed(there, &why, 0), QS_OK);
    CHECK(why.kind == QS_CLOSE_APPLICATION && why.code == 7 && strcmp(why.reason, "bye") == 0);
    IS(qs_connection_closed(here, &why, LONG_MS), QS_OK);
    CHECK(why.kind == QS_CLOSE_LOCAL);
    IS(qs_connection_open_stream(here, QS_BI, &stream, -1), QS_CLOSED);
    IS(qs_endpoint_wait_idle(client, LONG_MS), QS_OK);

    CHECK(pthread_create(&thread, NULL, accepts, NULL) == 0);
    nanosleep(&moment, NULL);
    IS(qs_free(server), QS_OK);
    CHECK(pthread_join(thread, &status) == 0);
    CHECK((intptr_t)status == QS_BAD_HANDLE);
    IS(qs_free(client), QS_OK);
    IS(qs_free(here), QS_BAD_HANDLE);
}

int main(void)
{
    connects();
    bytes();
    stops();
    messages();
    datagrams();
    frees();
    return failures != 0;
}
