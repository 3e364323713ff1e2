/* Data of no bytes and of 4 GiB, and calls from where few programs make them: each is refused or bounded, at
 * once, and the connection goes on. */

#define _DEFAULT_SOURCE

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "pair.h"

#define HUGE ((size_t)1 << 32)

/* Whoever copies what it should not is out of memory: of the 4 GiB no page is ever written. */
static unsigned char *huge;

static void no_bytes(void)
{
    qs_stream out, in;
    qs_messages sender, receiver;
    char buffer[4];
    size_t n = 99;

    IS(qs_connection_open_stream(here, QS_UNI, &out, LONG_MS), QS_OK);
    IS(qs_stream_write(out, NULL, 0, &n, 0), QS_OK);
    CHECK(n == 0);
    IS(qs_stream_write(out, huge, 0, &n, -1), QS_OK);
    IS(qs_stream_finish(out), QS_OK);
    IS(qs_connection_accept_stream(there, QS_UNI, &in, LONG_MS), QS_OK);
    IS(qs_stream_read(in, NULL, 0, &n, LONG_MS), QS_OK);
    IS(qs_stream_read(in, buffer, 1, &n, LONG_MS), QS_END);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);

    IS(qs_connection_open_messages(here, QS_UNI, &sender, LONG_MS), QS_OK);
    IS(qs_messages_send(sender, NULL, 0, -1, NULL, LONG_MS), QS_OK);
    IS(qs_connection_accept_messages(there, QS_UNI, &receiver, LONG_MS), QS_OK);
    IS(qs_messages_receive(receiver, NULL, 0, &n, NULL, LONG_MS), QS_OK);
    CHECK(n == 0);
    IS(qs_free(sender), QS_OK);
    IS(qs_free(receiver), QS_OK);

    IS(qs_connection_send_datagram(here, NULL, 0, -1, 0, LONG_MS), QS_OK);
    n = 99;
    IS(qs_connection_receive_datagram(there, NULL, 0, &n, LONG_MS), QS_OK);
    CHECK(n == 0);
}

static void four_gibibytes(void)
{
    qs_config config;
    qs_stream out, in;
    qs_messages sender, receiver;
    size_t n = 0, most;

    IS(qs_config_new(&config), QS_OK);
    IS(qs_config_trust_roots(config, huge, HUGE), QS_CONFIG);
    IS(qs_config_set_identity(config, huge, HUGE, "", 0), QS_CONFIG);
    IS(qs_config_set_identity(config, "", 0, huge, HUGE), QS_CONFIG);
    IS(qs_free(config), QS_OK);

    IS(qs_connection_max_datagram(here, &most), QS_OK);
    IS(qs_connection_send_datagram(here, huge, HUGE, -1, 0, LONG_MS), QS_TOO_LONG);
    IS(qs_connection_open_messages(here, QS_UNI, &sender, LONG_MS), QS_OK);
    IS(qs_messages_send(sender, huge, HUGE, -1, NULL, LONG_MS), QS_TOO_LONG);
    CHECK(qs_error_code() == 100000);
    IS(qs_messages_send(sender, "fits", 4, -1, NULL, LONG_MS), QS_OK);
    IS(qs_connection_accept_messages(there, QS_UNI, &receiver, LONG_MS), QS_OK);
    IS(qs_messages_receive(receiver, huge, HUGE, &n, NULL, LONG_MS), QS_OK);
    CHECK(n == 4 && memcmp(huge, "fits", 4) == 0);
    IS(qs_free(sender), QS_OK);
    IS(qs_free(receiver), QS_OK);

    /* Of what nobody reads no more is taken than there is room for; with time, until it is over. */
    IS(qs_connection_open_stream(here, QS_UNI, &out, LONG_MS), QS_OK);
    IS(qs_stream_write(out, huge, HUGE, &n, 0), QS_OK);
    CHECK(n > 0 && n < (64 << 20));
    IS(qs_stream_write(out, huge, HUGE, &n, 200), QS_TIMED_OUT);
    CHECK(n < (64 << 20));
    IS(qs_connection_accept_stream(there, QS_UNI, &in, LONG_MS), QS_OK);
    IS(qs_stream_read(in, huge, HUGE, &n, LONG_MS), QS_OK);
    CHECK(n > 0 && n < (64 << 20));
    IS(qs_stream_reset(out, 1), QS_OK);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);
}

static void *waits(void *stream)
{
    char byte;
    size_t n;
    return (void *)(intptr_t)qs_stream_read(*(qs_stream *)stream, &byte, 1, &n, -1);
}

/* Two threads wait for the same, and a third one ends it. */
static void same_half(void)
{
    pthread_t threads[3];
    qs_stream out, in;
    void *status;
    size_t n;
    int ends = 0, bytes = 0;

    IS(qs_connection_open_stream(here, QS_BI, &out, LONG_MS), QS_OK);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, waits, &out) == 0);
    IS(qs_stream_write(out, "x", 1, &n, LONG_MS), QS_OK);
    IS(qs_connection_accept_stream(there, QS_BI, &in, LONG_MS), QS_OK);
    IS(qs_stream_write(in, "y", 1, &n, LONG_MS), QS_OK);
    IS(qs_stream_finish(in), QS_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_join(threads[i], &status) == 0);
        bytes += (intptr_t)status == QS_OK;
        ends += (intptr_t)status == QS_END;
    }
    CHECK(bytes == 1 && ends == 2);
    IS(qs_free(out), QS_OK);
    IS(qs_free(in), QS_OK);
}

static pthread_key_t key;
static int last_words;

/* When a thread ends, what the library keeps for it may have gone before. */
static void at_the_end(void *unused)
{
    (void)unused;
    last_words += qs_messages_fence(0) == QS_BAD_HANDLE && qs_error_message() != NULL;
}

static void *ends(void *unused)
{
    CHECK(pthread_setspecific(key, &key) == 0);
    CHECK(qs_messages_fence(0) == QS_BAD_HANDLE);
    return unused;
}

static void dying_thread(void)
{
    pthread_t thread;
    CHECK(pthread_key_create(&key, at_the_end) == 0);
    CHECK(pthread_create(&thread, NULL, ends, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(last_words == 1);
}

/* Handles that are gone, of everything, while their numbers are given out again. */
static void stale(void)
{
    qs_stream streams[50], stream;
    qs_config config;
    uint64_t id;
    size_t n;

    for (int i = 0; i < 50; i++) {
        IS(qs_connection_open_stream(here, QS_BI, &streams[i], LONG_MS), QS_OK);
        IS(qs_stream_write(streams[i], "x", 1, &n, LONG_MS), QS_OK);
        IS(qs_free(streams[i]), QS_OK);
        IS(qs_config_new(&config), QS_OK);
        for (int j = 0; j <= i; j++) {
            CHECK(streams[j] != config);
            IS(qs_stream_write(streams[j], "x", 1, &n, 0), QS_BAD_HANDLE);
            IS(qs_stream_id(streams[j], &id), QS_BAD_HANDLE);
            IS(qs_free(streams[j]), QS_BAD_HANDLE);
        }
        IS(qs_free(config), QS_OK);
        IS(qs_connection_accept_stream(there, QS_BI, &stream, LONG_MS), QS_OK);
        IS(qs_free(stream), QS_OK);
    }
}

int main(void)
{
    struct rusage usage;

    huge = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (huge == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    connect_both();
    no_bytes();
    goes_on();
    four_gibibytes();
    goes_on();
    same_half();
    dying_thread();
    stale();
    goes_on();
    /* 4 GiB are only named. */
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    CHECK(usage.ru_maxrss < (1 << 20));
    IS(qs_connection_close(here, 7, huge, HUGE), QS_OK);
    qs_close why = {.size = sizeof why};
    IS(qs_connection_closed(there, &why, LONG_MS), QS_OK);
    CHECK(why.kind == QS_CLOSE_APPLICATION && why.code == 7 && why.reason_length == 256);
    IS(qs_free(client), QS_OK);
    IS(qs_free(server), QS_OK);
    return failures != 0;
}
