/* One side of what programs in C, Python and Rust say to each other: `cargo xtask languages` plays each with
 * each. python-quic/languages/peer.py tells what is said.
 *
 *     languages server ADDRESS
 *     languages client ADDRESS FINGERPRINT */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "quickset.h"

#define PROTOCOL "languages/1"
#ifndef LONG_MS
#define LONG_MS 20000
#endif

enum { BYTES = 300000, UPDATES = 100, PARTS = 4, DATAGRAMS = 20, ANSWERS = 15, PART = 1, POSITION = 2, STALE = 3 };

/* Of one update: its parts, its position, and what was late before it was sent. */
enum { EACH = PARTS + 2, ALL = UPDATES * EACH, HEAD = 4 };

static void must(qs_status status, const char *what)
{
    if (status != QS_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, qs_error_string(status), qs_error_message());
        exit(1);
    }
}

static void check(int holds, const char *otherwise)
{
    if (!holds) {
        fprintf(stderr, "%s\n", otherwise);
        exit(1);
    }
}

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 31 + i / 251);
}

/* Where a message has its place among all. */
static int place(int kind, int update, int part)
{
    check(kind >= PART && kind <= STALE && update >= 0 && update < UPDATES && part >= 0 && part < PARTS,
          "a message of no kind");
    return update * EACH + (kind == PART ? part : PARTS + kind - POSITION);
}

static void write_head(unsigned char *to, int kind, int update, int part)
{
    to[0] = (unsigned char)kind;
    to[1] = (unsigned char)(update >> 8);
    to[2] = (unsigned char)update;
    to[3] = (unsigned char)part;
}

/* As long as calls wait, so that a program which is watched and slow is not given up. */
static void set_patience(qs_config config)
{
    must(qs_config_set_number(config, QS_OPTION_HANDSHAKE_TIMEOUT_MS, LONG_MS), "setting a time");
    must(qs_config_set_number(config, QS_OPTION_IDLE_TIMEOUT_MS, LONG_MS), "setting a time");
}

static size_t read_all(qs_stream stream, unsigned char *to, size_t room)
{
    size_t all = 0, n;
    qs_status status;
    while ((status = qs_stream_read(stream, to + all, room - all, &n, LONG_MS)) == QS_OK) {
        all += n;
        check(n > 0, "more bytes than there is room for");
    }
    check(status == QS_END, "a stream did not end well");
    return all;
}

static void write_all(qs_stream stream, const unsigned char *data, size_t length)
{
    for (size_t sent = 0, n; sent < length; sent += n)
        must(qs_stream_write(stream, data + sent, length - sent, &n, LONG_MS), "writing");
    must(qs_stream_finish(stream), "finishing a stream");
}

/* The server */

static void answer_bytes(qs_connection connection)
{
    static unsigned char data[BYTES + 1];
    qs_stream stream;

    must(qs_connection_accept_stream(connection, QS_BI, &stream, LONG_MS), "accepting a stream");
    size_t length = read_all(stream, data, sizeof data);
    for (size_t i = 0; i < length; i++)
        data[i] ^= 0xff;
    write_all(stream, data, length);
    must(qs_free(stream), "freeing a stream");
}

static void answer_messages(qs_connection connection)
{
    qs_messages messages;
    unsigned char buffer[2000];
    qs_message history = {.size = sizeof history};
    uint64_t segment = 0;
    int last = 0;
    size_t length;

    must(qs_connection_accept_messages(connection, QS_BI, &messages, LONG_MS), "accepting messages");
    for (;;) {
        qs_status status = qs_messages_receive(messages, buffer, sizeof buffer, &length, &history, LONG_MS);
        if (status == QS_END)
            break;
        must(status, "receiving a message");
        check(length >= HEAD, "a message is too short");
        int update = buffer[1] << 8 | buffer[2];
        check(buffer[0] == PART || buffer[0] == POSITION, "a message whose time was over came");
        check(update >= last && history.segment >= segment, "a message crossed a fence");
        if (update > last)
            must(qs_messages_fence(messages), "setting a fence");
        last = update;
        segment = history.segment;
        must(qs_messages_send(messages, buffer, HEAD, -1, NULL, LONG_MS), "answering a message");
    }
    must(qs_messages_finish(messages), "finishing messages");
    must(qs_messages_finished(messages, LONG_MS), "waiting for the end of messages");
    must(qs_free(messages), "freeing messages");
}

static void answer_datagrams(qs_connection connection)
{
    unsigned char buffer[2000];
    size_t length;
    qs_status status;

    while ((status = qs_connection_receive_datagram(connection, buffer, sizeof buffer, &length, LONG_MS)) == QS_OK)
        must(qs_connection_send_datagram(connection, buffer, length, -1, 0, LONG_MS), "sending a datagram back");
    check(status == QS_CLOSED, "the client did not close the connection");
}

static int serve(const char *address)
{
    qs_config config;
    qs_endpoint endpoint;
    qs_connection connection;
    char text[80];
    size_t length;

    must(qs_config_new(&config), "making a configuration");
    must(qs_config_add_protocol(config, PROTOCOL), "naming the protocol");
    must(qs_config_set_self_signed(config, "localhost"), "making a certificate");
    set_patience(config);
    must(qs_endpoint_server(config, address, &endpoint), "making an endpoint");
    must(qs_endpoint_address(endpoint, text, sizeof text, &length), "asking for the address");
    printf("address %s\n", text);
    must(qs_config_fingerprint(config, text, sizeof text, &length), "asking for the fingerprint");
    printf("fingerprint %s\n", text);
    fflush(stdout);
    must(qs_free(config), "freeing the configuration");

    must(qs_endpoint_accept(endpoint, &connection, LONG_MS), "accepting a connection");
    answer_bytes(connection);
    answer_messages(connection);
    answer_datagrams(connection);
    qs_close why = {.size = sizeof why};
    must(qs_connection_closed(connection, &why, LONG_MS), "asking why the connection ended");
    printf("closed: code %" PRIu64 ", %s\n", why.code, why.reason);
    must(qs_free(endpoint), "freeing the endpoint");
    return why.kind == QS_CLOSE_APPLICATION && why.code == 7 && strcmp(why.reason, "done") == 0 ? 0 : 1;
}

/* The client */

static void ask_bytes(qs_connection connection)
{
    static unsigned char data[BYTES + 1];
    qs_stream stream;

    for (size_t i = 0; i < BYTES; i++)
        data[i] = pattern(i);
    must(qs_connection_open_stream(connection, QS_BI, &stream, LONG_MS), "opening a stream");
    write_all(stream, data, BYTES);
    size_t length = read_all(stream, data, sizeof data);
    check(length == BYTES, "more or fewer bytes came back");
    for (size_t i = 0; i < BYTES; i++)
        check((data[i] ^ 0xff) == pattern(i), "other bytes came back");
    must(qs_free(stream), "freeing a stream");
}

static void send_message(qs_messages messages, int *names, int kind, int update, int part, int64_t deadline_ms)
{
    unsigned char message[HEAD + 900] = {0};
    uint64_t number;

    write_head(message, kind, update, part);
    must(qs_messages_send(messages, message, kind == PART ? sizeof message : HEAD + 9, deadline_ms, &number,
                          LONG_MS),
         "sending a message");
    check(number < ALL, "numbers go on by one");
    names[number] = place(kind, update, part);
}

static int ask_messages(qs_connection connection)
{
    static int names[ALL], told[ALL], arrived[ALL], received[ALL];
    qs_messages messages;
    unsigned char buffer[HEAD];
    uint64_t number;
    uint32_t outcome;
    size_t length;
    qs_status status;
    int last = 0, positions = 0;

    must(qs_connection_open_messages(connection, QS_BI, &messages, LONG_MS), "opening messages");
    must(qs_messages_set_reliability(messages, "adaptive:screen", -1), "asking for protection");
    must(qs_messages_watch(messages), "asking for outcomes");
    for (int update = 0; update < UPDATES; update++) {
        for (int part = 0; part < PARTS; part++)
            send_message(messages, names, PART, update, part, -1);
        send_message(messages, names, POSITION, update, 0, 40);
        send_message(messages, names, STALE, update, 0, 0);
        must(qs_messages_fence(messages), "setting a fence");
        struct timespec moment = {.tv_nsec = 2000000};
        nanosleep(&moment, NULL);
    }
    must(qs_messages_finish(messages), "finishing messages");
    while ((status = qs_messages_outcome(messages, &number, &outcome, LONG_MS)) == QS_OK) {
        check(number < ALL, "an outcome of nothing");
        int name = names[number], within = name % EACH;
        int delivered = outcome == QS_OUTCOME_DELIVERED || outcome == QS_OUTCOME_RECOVERED;
        check(!told[name]++, "a second outcome");
        check(within >= PARTS || delivered, "a part did not arrive");
        check(within != PARTS + 1 || outcome == QS_OUTCOME_DROPPED, "a message whose time was over was sent");
        arrived[name] = delivered;
        positions += delivered && within == PARTS;
    }
    check(status == QS_END, "the outcomes did not end well");
    while ((status = qs_messages_receive(messages, buffer, HEAD, &length, NULL, LONG_MS)) == QS_OK) {
        check(length == HEAD, "an answer is too short");
        int update = buffer[1] << 8 | buffer[2];
        check(update >= last, "an answer crossed a fence");
        last = update;
        check(!received[place(buffer[0], update, buffer[3])]++, "a message came twice");
    }
    check(status == QS_END, "the answers did not end well");
    for (int name = 0; name < ALL; name++) {
        check(told[name], "a message has no outcome");
        check(!arrived[name] || received[name], "what arrived was not received");
        check(name % EACH != PARTS + 1 || !received[name], "a message whose time was over was received");
    }
    must(qs_free(messages), "freeing messages");
    return positions;
}

static void ask_datagrams(qs_connection connection)
{
    unsigned char datagram[1000];
    size_t length;

    for (int i = 0; i < DATAGRAMS; i++) {
        memset(datagram, i, sizeof datagram);
        must(qs_connection_send_datagram(connection, datagram, sizeof datagram, -1, 0, LONG_MS),
             "sending a datagram");
    }
    for (int i = 0; i < ANSWERS; i++) {
        must(qs_connection_receive_datagram(connection, datagram, sizeof datagram, &length, LONG_MS),
             "receiving a datagram");
        check(length == sizeof datagram && datagram[0] < DATAGRAMS, "another datagram came");
    }
}

static int ask(const char *address, const char *pin)
{
    qs_config config;
    qs_endpoint endpoint;
    qs_connection connection;

    must(qs_config_new(&config), "making a configuration");
    must(qs_config_add_protocol(config, PROTOCOL), "naming the protocol");
    must(qs_config_trust_fingerprint(config, pin), "trusting the server");
    set_patience(config);
    must(qs_endpoint_client("127.0.0.1:0", &endpoint), "making an endpoint");
    must(qs_endpoint_connect(endpoint, config, address, "localhost", &connection), "beginning a connection");
    must(qs_connection_ready(connection, LONG_MS), "connecting");
    ask_bytes(connection);
    int positions = ask_messages(connection);
    ask_datagrams(connection);
    must(qs_connection_close(connection, 7, "done", 4), "closing");
    must(qs_endpoint_wait_idle(endpoint, LONG_MS), "waiting until the server knows");
    must(qs_free(endpoint), "freeing the endpoint");
    must(qs_free(config), "freeing the configuration");
    printf("fine: %d of %d positions arrived in time\n", positions, UPDATES);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        return serve(argv[2]);
    if (argc == 4 && strcmp(argv[1], "client") == 0)
        return ask(argv[2], argv[3]);
    fprintf(stderr, "usage: languages server ADDRESS | client ADDRESS FINGERPRINT\n");
    return 2;
}
