/* Quickset: QUIC with fenced messages and forward erasure correction. This file is made by a program.
 *
 * Calls
 *   Each call that can fail returns a qs_status: QS_OK, QS_END, or a negative number. qs_error_string says what
 *   a number means; qs_error_message says in a sentence what went wrong when a call of this thread last failed.
 *   What a call stores is stored only if it returns QS_OK, unless it says otherwise.
 *
 * Handles
 *   A handle is a number. 0 is none. A handle that was freed is never given again, and a call with it returns
 *   QS_BAD_HANDLE; so does one with a handle of another kind. Free each with qs_free. An endpoint takes
 *   everything along that was made from it.
 *
 * Waiting
 *   Calls with a timeout_ms wait for so many milliseconds at most, and then return QS_TIMED_OUT. With a negative
 *   one they wait for ever. With 0 they do not wait: when nothing can be done now they return QS_WOULD_BLOCK,
 *   and the event that their description names comes once, when it is worth to call again. So go on with a
 *   stream until a call returns QS_WOULD_BLOCK; without that there is no event. An event may turn out to be in
 *   vain: the call then returns QS_WOULD_BLOCK once more. QS_EVENT_CONNECTED and QS_EVENT_CLOSED come by
 *   themselves. An endpoint has a descriptor (qs_endpoint_descriptor) that is readable while there are events.
 *
 * Threads
 *   Every call may come from any thread, and several threads may use the same handle at the same time. Calls
 *   that wait hold no lock: another thread may use, close or free what they wait for, and with the last they
 *   return QS_BAD_HANDLE. Each of two threads that read the same stream gets parts of it; let one thread read
 *   and one write. qs_error_message and qs_error_code are those of the calling thread. The library calls no
 *   function of the application. Each endpoint has one thread of its own; it handles no signals of its own
 *   making, and begins with the signal mask of the thread that made the endpoint.
 *
 * Processes
 *   The library belongs to the process that made the first handle. In a child after fork every call that uses
 *   handles returns QS_FORKED and touches nothing; a child that calls exec is none of its concern.
 *
 * Memory
 *   The library keeps no pointer beyond a call. A pointer that is not null has to lead to as much memory as its
 *   length says, and a text has to end with a zero byte and be UTF-8. Lengths of more than PTRDIFF_MAX are
 *   refused. Structs that the library fills begin with their size, which the caller sets: so later versions
 *   may add fields at their end.
 */


#ifndef QUICKSET_H
#define QUICKSET_H

#include <stddef.h>
#include <stdint.h>

/**
 * This application closed it.
 */
#define QS_CLOSE_LOCAL 1

/**
 * The peer's application closed it: `code` and `reason` are its.
 */
#define QS_CLOSE_APPLICATION 2

/**
 * The peer's transport closed it: `code` is that of RFC 9000, section 20.1.
 */
#define QS_CLOSE_PEER 3

/**
 * The peer broke the protocol, or could not be authenticated: `code` is that of RFC 9000, section 20.1.
 */
#define QS_CLOSE_FAILED 4

/**
 * The peer has lost the connection, for example since it was started anew.
 */
#define QS_CLOSE_RESET 5

/**
 * The peer does not answer.
 */
#define QS_CLOSE_TIMED_OUT 6

/**
 * Nothing could be sent to the peer, or nothing listens there.
 */
#define QS_CLOSE_UNREACHABLE 7

/**
 * The peer speaks no version of QUIC that we know.
 */
#define QS_CLOSE_VERSION 8

/**
 * The endpoint has ended.
 */
#define QS_CLOSE_ENDPOINT 9

/**
 * The connection was never begun: the address, the name or the configuration cannot be used.
 */
#define QS_CLOSE_REFUSED 10

/**
 * None of these; a newer library knows more.
 */
#define QS_CLOSE_OTHER 99

/**
 * The silence after which a connection ends, in milliseconds; 0 for never.
 */
#define QS_OPTION_IDLE_TIMEOUT_MS 1

/**
 * The silence after which a PING keeps a connection alive, in milliseconds; 0 for none, as at the start.
 */
#define QS_OPTION_KEEP_ALIVE_MS 2

/**
 * How long a handshake may take, in milliseconds, at least 1.
 */
#define QS_OPTION_HANDSHAKE_TIMEOUT_MS 3

/**
 * How many connections a server has at a time, handshakes included; 10,000 at the start.
 */
#define QS_OPTION_MAX_CONNECTIONS 4

/**
 * The largest message that is taken, in bytes, at least 1200; 0 offers no fenced streams.
 */
#define QS_OPTION_MAX_MESSAGE 5

/**
 * 0 to offer no forward erasure correction, 1 to offer it, as at the start.
 */
#define QS_OPTION_FEC 6

/**
 * Whether a server asks clients for a certificate: 0 for no, as at the start, 1 for yes, 2 to refuse those
 * without. Who is welcome the application decides, by `qs_connection_peer_fingerprint`.
 */
#define QS_OPTION_CLIENT_AUTH 7

/**
 * How many streams of both directions the peer may have open at a time.
 */
#define QS_OPTION_MAX_STREAMS_BI 8

/**
 * How many streams of its direction the peer may have open at a time.
 */
#define QS_OPTION_MAX_STREAMS_UNI 9

/**
 * How many bytes a stream holds before it takes no more to be sent.
 */
#define QS_OPTION_SEND_BUFFER 10

/**
 * A stream that both sides send on.
 */
#define QS_BI 0

/**
 * A stream that only the side sends on that opened it.
 */
#define QS_UNI 1

/**
 * Both sides know fenced streams. Without them messages arrive in order.
 */
#define QS_FEATURE_FENCES 1

/**
 * Both sides know forward erasure correction. Without it nothing is repaired: what is lost is sent again.
 */
#define QS_FEATURE_FEC 2

/**
 * When the queue is full, the oldest datagrams in it make room: new is better than old.
 */
#define QS_DROP_OLDEST 1

/**
 * The handshake of a connection that `qs_endpoint_connect` began is complete. It comes by itself.
 */
#define QS_EVENT_CONNECTED 1

/**
 * A connection is over, or did not come about. It comes by itself, once.
 */
#define QS_EVENT_CLOSED 2

/**
 * A client connected: call `qs_endpoint_accept`.
 */
#define QS_EVENT_INCOMING 3

/**
 * No connection is left: `qs_endpoint_wait_idle` would return.
 */
#define QS_EVENT_IDLE 4

/**
 * The peer opened a stream of both directions: accept it.
 */
#define QS_EVENT_INCOMING_BI 5

/**
 * The peer opened a stream of its direction: accept it.
 */
#define QS_EVENT_INCOMING_UNI 6

/**
 * The peer allows one more stream of both directions: open it.
 */
#define QS_EVENT_ROOM_BI 7

/**
 * The peer allows one more stream of our direction: open it.
 */
#define QS_EVENT_ROOM_UNI 8

/**
 * There is something to read on a stream of bytes, or its end.
 */
#define QS_EVENT_READABLE 9

/**
 * There is room on a stream of bytes or of messages, or it takes nothing more.
 */
#define QS_EVENT_WRITABLE 10

/**
 * All of a stream that was finished has arrived, or it never will: `qs_stream_finished` or
 * `qs_messages_finished` would return.
 */
#define QS_EVENT_FINISHED 11

/**
 * There is a message, or the end of a stream of messages.
 */
#define QS_EVENT_MESSAGE 12

/**
 * It is known what became of a message: call `qs_messages_outcome`.
 */
#define QS_EVENT_OUTCOME 13

/**
 * There is a datagram.
 */
#define QS_EVENT_DATAGRAM 14

/**
 * There is room for a datagram.
 */
#define QS_EVENT_DATAGRAM_ROOM 15

/**
 * The peer has all of the message.
 */
#define QS_OUTCOME_DELIVERED 1

/**
 * The peer has all of the message, a part of it by repair.
 */
#define QS_OUTCOME_RECOVERED 2

/**
 * The message was dropped before anything of it was sent.
 */
#define QS_OUTCOME_DROPPED 3

/**
 * The message was given up after a part of it was sent: it is not known to have arrived.
 */
#define QS_OUTCOME_ABANDONED 4

/**
 * The connection ended before that was known: the message may have arrived.
 */
#define QS_OUTCOME_UNKNOWN 5

/**
 * None of these; a newer library knows more.
 */
#define QS_OUTCOME_OTHER 99

/**
 * What a call came to: `QS_OK`, another number that is not negative, or a negative one for a failure.
 */
typedef int32_t qs_status;

/**
 * A handle of a configuration.
 */
typedef uint64_t qs_config;

/**
 * A handle of a connection.
 */
typedef uint64_t qs_connection;

/**
 * Why a connection ended.
 */
typedef struct qs_close {
  /**
   * Set it to `sizeof(qs_close)` before the call; afterwards it is how many bytes were stored.
   */
  uint64_t size;
  /**
   * One of `QS_CLOSE_…`.
   */
  uint32_t kind;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * The code that belongs to it, or 0.
   */
  uint64_t code;
  /**
   * The length of `reason` without its zero byte.
   */
  uint64_t reason_length;
  /**
   * The words of the peer's application, as it sent them, or a sentence about what happened, cut if it is
   * longer. A zero byte is behind it; the words of the peer may hold others.
   */
  char reason[520];
} qs_close;

/**
 * A handle of a stream of bytes.
 */
typedef uint64_t qs_stream;

/**
 * A handle of a stream of messages.
 */
typedef uint64_t qs_messages;

/**
 * A handle of an endpoint.
 */
typedef uint64_t qs_endpoint;

/**
 * Something that happened.
 */
typedef struct qs_event {
  /**
   * What happened, one of `QS_EVENT_…`. Pass over those that you do not know.
   */
  uint32_t kind;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * What it happened to: an endpoint, a connection, a stream or a stream of messages.
   */
  uint64_t handle;
  /**
   * The handle that this one was made from: of a stream its connection, of a connection its endpoint, of
   * an endpoint 0. It may have been freed.
   */
  uint64_t parent;
  /**
   * The number that `qs_set_user` attached to the handle, 0 unless it did.
   */
  uint64_t user;
} qs_event;

/**
 * The history of a message that was received.
 */
typedef struct qs_message {
  /**
   * Set it to `sizeof(qs_message)` before the call; afterwards it is how many bytes were stored.
   */
  uint64_t size;
  /**
   * The number of what lies between two fences. Messages of the same segment may have overtaken each
   * other; one of a greater segment was sent later.
   */
  uint64_t segment;
  /**
   * For how many microseconds fences held back the complete message.
   */
  uint64_t blocked_us;
} qs_message;

/**
 * What became of the messages of a stream so far.
 */
typedef struct qs_message_stats {
  /**
   * Set it to `sizeof(qs_message_stats)` before the call; afterwards it is how many bytes were stored.
   */
  uint64_t size;
  /**
   * Messages handed over to be sent.
   */
  uint64_t queued;
  /**
   * Their bytes.
   */
  uint64_t queued_bytes;
  /**
   * Messages of which something was sent.
   */
  uint64_t sent;
  /**
   * Messages that arrived by their deadlines, or had none.
   */
  uint64_t on_time;
  /**
   * Messages that arrived later.
   */
  uint64_t late;
  /**
   * Messages that arrived with the help of repair.
   */
  uint64_t recovered;
  /**
   * Bytes of messages that arrived.
   */
  uint64_t arrived_bytes;
  /**
   * Messages that were dropped before anything of them was sent.
   */
  uint64_t dropped;
  /**
   * Messages that were given up after a part of them was sent.
   */
  uint64_t abandoned;
  /**
   * Bytes of messages that wait to be sent, for the first time or again.
   */
  uint64_t unsent_bytes;
} qs_message_stats;

/**
 * What a connection has counted so far, and what it knows of its path.
 */
typedef struct qs_stats {
  /**
   * Set it to `sizeof(qs_stats)` before the call; afterwards it is how many bytes were stored.
   */
  uint64_t size;
  /**
   * UDP datagrams sent.
   */
  uint64_t sent_datagrams;
  /**
   * Their bytes.
   */
  uint64_t sent_bytes;
  /**
   * QUIC packets sent; several may share a datagram.
   */
  uint64_t sent_packets;
  /**
   * UDP datagrams received.
   */
  uint64_t received_datagrams;
  /**
   * Their bytes.
   */
  uint64_t received_bytes;
  /**
   * Authentic packets received, duplicates not counted.
   */
  uint64_t received_packets;
  /**
   * Packets that could not be read.
   */
  uint64_t dropped_packets;
  /**
   * Packets of ours declared lost.
   */
  uint64_t lost_packets;
  /**
   * Of those: acknowledged later.
   */
  uint64_t spurious_losses;
  /**
   * Probe timeouts.
   */
  uint64_t probe_timeouts;
  /**
   * Bytes of streams sent, each counted once.
   */
  uint64_t stream_bytes;
  /**
   * The smoothed round-trip time, in microseconds.
   */
  uint64_t rtt_us;
  /**
   * The least round-trip time, in microseconds.
   */
  uint64_t min_rtt_us;
  /**
   * The congestion window, in bytes.
   */
  uint64_t window;
  /**
   * Bytes in flight.
   */
  uint64_t in_flight;
  /**
   * The rate at which packets are paced, in bytes per second.
   */
  uint64_t pacing_rate;
  /**
   * The largest UDP payload that is sent, in bytes.
   */
  uint64_t mtu;
  /**
   * Repair symbols sent.
   */
  uint64_t repairs_sent;
  /**
   * Their bytes.
   */
  uint64_t repair_bytes;
  /**
   * Symbols of ours that the peer recovered.
   */
  uint64_t recovered;
  /**
   * Symbols of ours that were lost and had to be sent again.
   */
  uint64_t unrecovered;
  /**
   * Symbols of the peer that this side recovered.
   */
  uint64_t recovered_here;
  /**
   * The estimated share of packets that are lost on the way to the peer, in parts per million.
   */
  uint64_t loss_ppm;
  /**
   * Unreliable datagrams sent.
   */
  uint64_t unreliable_sent;
  /**
   * Of those: lost.
   */
  uint64_t unreliable_lost;
  /**
   * Unreliable datagrams received.
   */
  uint64_t unreliable_received;
  /**
   * Of those: dropped, since nobody received them in time.
   */
  uint64_t unreliable_dropped;
  /**
   * Packets received and dropped as if lost: no memory was left for them, or they asked for more work than
   * packets pay for.
   */
  uint64_t unpaid_packets;
  /**
   * How often the peer asked for so much work that it was paced.
   */
  uint64_t paced;
} qs_stats;

/**
 * The call did what it says.
 */
#define QS_OK 0

/**
 * There is nothing more to come: the stream has ended, or the endpoint is closed. This is no failure.
 */
#define QS_END 1

/**
 * Nothing can be done now, and the call did not wait. An event tells when to try again.
 */
#define QS_WOULD_BLOCK -1

/**
 * The call waited as long as it was told to.
 */
#define QS_TIMED_OUT -2

/**
 * An argument cannot be used: a null pointer, a length that no memory has, a text that is not UTF-8.
 */
#define QS_INVALID -3

/**
 * The handle is zero, of another kind, or was freed.
 */
#define QS_BAD_HANDLE -4

/**
 * The connection is over, or never came about; `qs_connection_closed` tells why.
 */
#define QS_CLOSED -5

/**
 * The peer wants no more of the stream; `qs_error_code` is its code.
 */
#define QS_STOPPED -6

/**
 * The peer gave the stream up; `qs_error_code` is its code.
 */
#define QS_RESET -7

/**
 * The stream, or this direction of it, was ended here, or has no such direction.
 */
#define QS_ENDED -8

/**
 * The buffer is too small; the length that it needs was stored, with the zero byte of a text, and nothing is
 * lost.
 */
#define QS_TOO_SMALL -9

/**
 * The message or datagram is longer than the peer takes; `qs_error_code` is the most in bytes.
 */
#define QS_TOO_LONG -10

/**
 * What the peer sends cannot be read as what was asked for.
 */
#define QS_MALFORMED -11

/**
 * The peer, the system or this build does not have it.
 */
#define QS_UNSUPPORTED -12

/**
 * The handshake of the connection is not complete.
 */
#define QS_NOT_READY -13

/**
 * The configuration cannot be used.
 */
#define QS_CONFIG -14

/**
 * The operating system refused: a socket, a thread, entropy.
 */
#define QS_SYSTEM -15

/**
 * The process is a child of the one that uses the library, by `fork`.
 */
#define QS_FORKED -16

/**
 * A fault of the library. Please report it with the message.
 */
#define QS_INTERNAL -17

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a configuration for servers, clients or both, and stores its handle in `config`. Endpoints and
 * connections take what it holds when they are made; it may be changed or freed afterwards. Keep that of a
 * client: later connections by it resume the session of an earlier one.
 */
qs_status qs_config_new(qs_config *config);

/**
 * Adds an application protocol (ALPN), 1 to 255 bytes like `chat/1`, behind those that were added before. At
 * least one is needed.
 */
qs_status qs_config_add_protocol(qs_config config, const char *protocol);

/**
 * Sets who the server proves to be, or the client if it is asked: PEM with a chain of certificates, its own
 * first, and PEM with the private key. Neither text needs a zero byte behind it.
 */
qs_status qs_config_set_identity(qs_config config,
                                 const void *certificates,
                                 size_t certificates_length,
                                 const void *key,
                                 size_t key_length);

/**
 * Makes a new key, and a certificate for this host name or address that it signs itself. Clients know it by
 * its fingerprint: see `qs_config_fingerprint` and `qs_config_trust_fingerprint`.
 */
qs_status qs_config_set_self_signed(qs_config config, const char *name);

/**
 * Stores the fingerprint of the key, which clients may pin: a text of 71 bytes and a zero byte.
 */
qs_status qs_config_fingerprint(qs_config config, char *buffer, size_t capacity, size_t *length);

/**
 * Trusts servers with a certificate for their name that one of these authorities signed, which are given as
 * PEM. It replaces what was trusted before.
 */
qs_status qs_config_trust_roots(qs_config config, const void *pem, size_t length);

/**
 * Trusts a server that has the key with this fingerprint, `sha256:` and 64 hexadecimal digits, whatever its
 * name. Called again it trusts several keys. It replaces what was trusted in another way.
 */
qs_status qs_config_trust_fingerprint(qs_config config, const char *fingerprint);

/**
 * Trusts any server, so that whoever is between the two ends can read and change everything. This is for
 * tests.
 */
qs_status qs_config_trust_anybody(qs_config config);

/**
 * Protects all streams that have no protection of their own, by one of these: `none`, `adaptive`,
 * `adaptive:bulk`, `adaptive:screen`, `adaptive:messages`, `rs:N/K`, `rs:N/K:stride=D`, `ldpc:N/K`,
 * `xor:DEPTH`, or a policy of a paper (`bulk`, `buffer`, `messages`, `ac-rlnc`, `tum`, `xor2d`, `sr`,
 * `fixed`, with their parameters behind a colon). `qs_error_message` lists the forms for a text that is
 * none.
 */
qs_status qs_config_set_protection(qs_config config, const char *protection);

/**
 * Sets a number, one of `QS_OPTION_…`.
 */
qs_status qs_config_set_number(qs_config config, uint32_t option, uint64_t value);

/**
 * Waits until the handshake is complete. Returns `QS_CLOSED` if there is no connection; `qs_error_message`
 * tells why. Without time to wait it returns `QS_WOULD_BLOCK` while the handshake is under way.
 */
qs_status qs_connection_ready(qs_connection connection, int32_t timeout_ms);

/**
 * Waits for the end of the connection and stores why it ended in `close`, unless that is null. Set its field
 * `size` before. Without time to wait it returns `QS_WOULD_BLOCK` while the connection lives.
 */
qs_status qs_connection_closed(qs_connection connection, struct qs_close *close, int32_t timeout_ms);

/**
 * Ends the connection at once. The peer's application gets `code`, less than 2^62, and of `reason` 256 bytes
 * at most. What has not arrived is lost: where that matters, wait for `qs_stream_finished` or
 * `qs_messages_finished` first.
 */
qs_status qs_connection_close(qs_connection connection, uint64_t code, const void *reason, size_t length);

/**
 * Stores the peer's address and port as a text, 64 bytes with its zero byte at most.
 */
qs_status qs_connection_peer_address(qs_connection connection, char *buffer, size_t capacity, size_t *length);

/**
 * Stores the fingerprint of the peer's key as a text of 71 bytes and a zero byte. Returns `QS_UNSUPPORTED`
 * if the peer showed no certificate.
 */
qs_status qs_connection_peer_fingerprint(qs_connection connection,
                                         char *buffer,
                                         size_t capacity,
                                         size_t *length);

/**
 * Stores the application protocol that both sides agreed on (ALPN): up to 255 bytes, without a zero byte.
 */
qs_status qs_connection_protocol(qs_connection connection, char *buffer, size_t capacity, size_t *length);

/**
 * Stores what both sides agreed on, a sum of `QS_FEATURE_…`.
 */
qs_status qs_connection_features(qs_connection connection, uint32_t *features);

/**
 * Opens a stream of bytes, `QS_BI` or `QS_UNI`, and stores its handle in `stream`. `QS_EVENT_ROOM_BI` or
 * `QS_EVENT_ROOM_UNI` tells when to try again: when the peer allows one more. The peer learns of the stream
 * with its first bytes, or with its end.
 */
qs_status qs_connection_open_stream(qs_connection connection,
                                    uint32_t direction,
                                    qs_stream *stream,
                                    int32_t timeout_ms);

/**
 * Takes the next stream of this direction that the peer opened, as one of bytes, and stores its handle in
 * `stream`. `QS_EVENT_INCOMING_BI` or `QS_EVENT_INCOMING_UNI` tells when to try again. QUIC does not mark
 * streams of messages: the protocol of the application has to say which are.
 */
qs_status qs_connection_accept_stream(qs_connection connection,
                                      uint32_t direction,
                                      qs_stream *stream,
                                      int32_t timeout_ms);

/**
 * Opens a stream of messages. Otherwise this is `qs_connection_open_stream`.
 */
qs_status qs_connection_open_messages(qs_connection connection,
                                      uint32_t direction,
                                      qs_messages *messages,
                                      int32_t timeout_ms);

/**
 * Takes the next stream of this direction that the peer opened, as one of messages. Otherwise this is
 * `qs_connection_accept_stream`.
 */
qs_status qs_connection_accept_messages(qs_connection connection,
                                        uint32_t direction,
                                        qs_messages *messages,
                                        int32_t timeout_ms);

/**
 * Sends a datagram: whole, in one packet, once or not at all. With a `deadline_ms` that is not negative it
 * is not sent later than so many milliseconds from this call on. `flags` is 0 or `QS_DROP_OLDEST`; without
 * it, `QS_EVENT_DATAGRAM_ROOM` tells when there is room and the call should be tried again.
 */
qs_status qs_connection_send_datagram(qs_connection connection,
                                      const void *data,
                                      size_t length,
                                      int64_t deadline_ms,
                                      uint32_t flags,
                                      int32_t timeout_ms);

/**
 * Receives the next datagram and stores its length. Returns `QS_TOO_SMALL` if the buffer has no room for it:
 * the length is stored then, too, and the datagram comes again with the next call. `QS_EVENT_DATAGRAM` tells
 * when to try again. Datagrams that nobody receives are dropped for later ones.
 */
qs_status qs_connection_receive_datagram(qs_connection connection,
                                         void *buffer,
                                         size_t capacity,
                                         size_t *length,
                                         int32_t timeout_ms);

/**
 * Stores the length of the longest datagram that can be sent now, 0 if the peer takes none.
 */
qs_status qs_connection_max_datagram(qs_connection connection, size_t *length);

/**
 * Sets how datagrams are repaired from now on, by a text as for `qs_config_set_protection`. No datagram is
 * ever sent again.
 */
qs_status qs_connection_set_datagram_protection(qs_connection connection, const char *protection);

/**
 * Says that the datagrams sent so far belong together, so that repair may go out right behind them.
 */
qs_status qs_connection_flush_datagrams(qs_connection connection);

/**
 * Makes an endpoint that takes connections on `address`, a text like `0.0.0.0:4433` or `[::]:4433`, and
 * stores its handle in `endpoint`. With port 0 the system picks one: see `qs_endpoint_address`. `config`
 * needs a certificate and a protocol. The endpoint can begin connections, too.
 */
qs_status qs_endpoint_server(qs_config config, const char *address, qs_endpoint *endpoint);

/**
 * Makes an endpoint that only begins connections, and stores its handle in `endpoint`. With a null pointer
 * for `address` it uses any port of all addresses, of IPv6 and IPv4 where the system has both.
 */
qs_status qs_endpoint_client(const char *address, qs_endpoint *endpoint);

/**
 * Stores the address and port of the socket as a text, 64 bytes with its zero byte at most.
 */
qs_status qs_endpoint_address(qs_endpoint endpoint, char *buffer, size_t capacity, size_t *length);

/**
 * Stores the port of the socket.
 */
qs_status qs_endpoint_port(qs_endpoint endpoint, uint16_t *port);

/**
 * Begins a connection to the server at `address`, a text like `192.0.2.1:4433`, and stores its handle in
 * `connection`. (The library asks no name servers: `getaddrinfo` does.) `name` is the host name or address
 * that the server's certificate is checked against. The call does not wait: `QS_EVENT_CONNECTED` or
 * `QS_EVENT_CLOSED` tells how the handshake ended, and so does `qs_connection_ready`.
 */
qs_status qs_endpoint_connect(qs_endpoint endpoint,
                              qs_config config,
                              const char *address,
                              const char *name,
                              qs_connection *connection);

/**
 * Takes the next connection of a client whose handshake is complete, and stores its handle in `connection`.
 * `QS_EVENT_INCOMING` tells when to try again. Returns `QS_END` when the endpoint is closed, or takes no
 * connections.
 */
qs_status qs_endpoint_accept(qs_endpoint endpoint, qs_connection *connection, int32_t timeout_ms);

/**
 * Closes the endpoint and all its connections at once. The peers' applications get `code`, less than 2^62,
 * and of `reason` 256 bytes at most.
 */
qs_status qs_endpoint_close(qs_endpoint endpoint, uint64_t code, const void *reason, size_t length);

/**
 * Waits until no connection is left: each was closed by either side, and the peer has had time to hear of
 * it. A closed connection is left for three probe timeouts, a few round trips and some 100 ms, and says
 * three times in that time that it is over. `QS_EVENT_IDLE` tells when to try again.
 */
qs_status qs_endpoint_wait_idle(qs_endpoint endpoint, int32_t timeout_ms);

/**
 * Stores a descriptor that is readable while there are events, for `poll`, `epoll` or `select`. Only wait
 * for it: do not read from it, and do not close it. It is that of the endpoint and goes with it. Returns
 * `QS_UNSUPPORTED` where the system has no such descriptors: there, give `qs_endpoint_poll_events` a
 * timeout.
 */
qs_status qs_endpoint_descriptor(qs_endpoint endpoint, int32_t *descriptor);

/**
 * Takes up to `capacity` events, and stores how many in `count`, 0 unless the call returns `QS_OK`. Without
 * time to wait it returns `QS_WOULD_BLOCK` when there are none.
 */
qs_status qs_endpoint_poll_events(qs_endpoint endpoint,
                                  struct qs_event *events,
                                  size_t capacity,
                                  size_t *count,
                                  int32_t timeout_ms);

/**
 * Returns the version of the library, like `0.1.0`, in static memory.
 */
const char *qs_version(void);

/**
 * Sends a message, whole. Messages between two fences are delivered in whatever order they arrive. With a
 * `deadline_ms` that is not negative the message is of use for so many milliseconds from this call on, and
 * is dropped or given up when it cannot arrive in time, so with 0 it is dropped at once; with a negative one
 * it is of use as long as `qs_messages_set_reliability` says, or for ever. Its number, from 0 on, is stored
 * in `number` unless that is null. `QS_EVENT_WRITABLE` tells when there is room and the call should be tried
 * again.
 */
qs_status qs_messages_send(qs_messages messages,
                           const void *data,
                           size_t length,
                           int64_t deadline_ms,
                           uint64_t *number,
                           int32_t timeout_ms);

/**
 * Sets a fence: messages sent after it are delivered after all messages sent before it. Those that were
 * dropped or given up are not waited for.
 */
qs_status qs_messages_fence(qs_messages messages);

/**
 * Sets whether a fence follows every message (1) or not (0, as at the start). If so, messages are delivered
 * in the order in which they were sent.
 */
qs_status qs_messages_set_ordered(qs_messages messages, int32_t ordered);

/**
 * Sets whether lost messages are kept and sent again (1, as at the start), or given up as soon as a part of
 * them is lost (0).
 */
qs_status qs_messages_set_resend(qs_messages messages, int32_t resend);

/**
 * Sets how urgent the messages are: 0 (most) to 7 (least), 3 at the start.
 */
qs_status qs_messages_set_urgency(qs_messages messages, uint8_t urgency);

/**
 * Sets how messages are protected against loss from now on, by a text as for `qs_config_set_protection`,
 * like `adaptive:screen` for updates of a screen or `adaptive:messages` for input; and for how many
 * milliseconds a message without a deadline of its own is of use, for ever if that is negative. Without
 * `QS_FEATURE_FEC` nothing is repaired.
 */
qs_status qs_messages_set_reliability(qs_messages messages, const char *protection, int64_t within_ms);

/**
 * Says that the application now waits for an answer to the messages sent so far, so that repair may go out
 * behind them. Each fence says so already.
 */
qs_status qs_messages_flush(qs_messages messages);

/**
 * Has `qs_messages_outcome` tell what becomes of the messages that are sent from now on. Whoever asks for
 * that has to take what it tells: with 65,536 outcomes that nobody has taken, the stream takes no more
 * messages.
 */
qs_status qs_messages_watch(qs_messages messages);

/**
 * Takes the next message of which it is known what became of it: its number, and one of `QS_OUTCOME_…`.
 * Returns `QS_END` when the stream or the connection has ended and every message was told. Call
 * `qs_messages_watch` first. `QS_EVENT_OUTCOME` tells when to try again.
 */
qs_status qs_messages_outcome(qs_messages messages, uint64_t *number, uint32_t *outcome, int32_t timeout_ms);

/**
 * Says that the message with this number is outdated: what was not sent of it is not sent, what is lost is
 * not sent again. Call `qs_messages_watch` before sending it. Returns `QS_END` when that changes nothing any
 * more.
 */
qs_status qs_messages_supersede(qs_messages messages, uint64_t number);

/**
 * Ends this side's direction of the stream behind the messages sent. It does not wait.
 */
qs_status qs_messages_finish(qs_messages messages);

/**
 * Waits until the outcome of every message is known and the peer knows of the end. Finish the stream first.
 * `QS_EVENT_FINISHED` tells when to try again.
 */
qs_status qs_messages_finished(qs_messages messages, int32_t timeout_ms);

/**
 * Gives this side's direction of the stream up: messages that have not arrived are not sent any more, and
 * the peer is told `code`, less than 2^62.
 */
qs_status qs_messages_reset(qs_messages messages, uint64_t code);

/**
 * Receives the next message that its fences let pass, and stores its length in `length`. Returns
 * `QS_TOO_SMALL` if the buffer has no room for it: the length is stored then, too, and the message comes
 * again with the next call. Returns `QS_END` after the last message. Its history is stored in `message`,
 * unless that is null; set the field `size` before. `QS_EVENT_MESSAGE` tells when to try again.
 */
qs_status qs_messages_receive(qs_messages messages,
                              void *buffer,
                              size_t capacity,
                              size_t *length,
                              struct qs_message *message,
                              int32_t timeout_ms);

/**
 * Asks the peer to send no more, with a `code` less than 2^62. Messages that were not received are lost.
 */
qs_status qs_messages_stop(qs_messages messages, uint64_t code);

/**
 * Stores the stream's id (RFC 9000, section 2.1), which both sides know it by.
 */
qs_status qs_messages_id(qs_messages messages, uint64_t *id);

/**
 * Stores what became of the messages that this side sent. Set the field `size` before.
 */
qs_status qs_messages_stats(qs_messages messages, struct qs_message_stats *stats);

/**
 * Stores what the connection has counted so far. Set the field `size` before: a program that was built with
 * fewer fields gets those.
 */
qs_status qs_connection_stats(qs_connection connection, struct qs_stats *stats);

/**
 * Describes a status in a few words, in static memory. It never returns null.
 */
const char *qs_error_string(qs_status status);

/**
 * Tells what exactly was wrong when a call on this thread last failed, in a sentence for people. (A call
 * that returned `QS_WOULD_BLOCK`, `QS_TIMED_OUT` or `QS_END` counts as none that failed.) The text is good
 * until the next call of the library on this thread, `qs_error_string` and `qs_error_code` excepted. It is
 * empty if nothing has failed, and never null.
 */
const char *qs_error_message(void);

/**
 * Tells the number that belongs to the failure that `qs_error_message` describes: the peer's code for
 * `QS_STOPPED` and `QS_RESET`, the most in bytes for `QS_TOO_LONG`, and 0 for others.
 */
uint64_t qs_error_code(void);

/**
 * Writes `data` and stores in `written` how many bytes were taken. Without time to wait these are as many as
 * there is room for, and if that is none, `QS_WOULD_BLOCK`: `QS_EVENT_WRITABLE` tells when to try again.
 * With time it is all of them, unless the call fails or the time is over: `written` is right then, too.
 */
qs_status qs_stream_write(qs_stream stream,
                          const void *data,
                          size_t length,
                          size_t *written,
                          int32_t timeout_ms);

/**
 * Reads up to `capacity` bytes and stores how many in `length`, at least one unless there is no room for
 * any. Returns `QS_END` at the end of the stream. `QS_EVENT_READABLE` tells when to try again.
 */
qs_status qs_stream_read(qs_stream stream, void *buffer, size_t capacity, size_t *length, int32_t timeout_ms);

/**
 * Ends this side's direction of the stream behind what was written. It does not wait.
 */
qs_status qs_stream_finish(qs_stream stream);

/**
 * Waits until all bytes and the end of the stream have arrived at the peer. Finish it first.
 * `QS_EVENT_FINISHED` tells when to try again.
 */
qs_status qs_stream_finished(qs_stream stream, int32_t timeout_ms);

/**
 * Gives this side's direction of the stream up: bytes that have not arrived are not sent any more, and the
 * peer is told `code`, less than 2^62.
 */
qs_status qs_stream_reset(qs_stream stream, uint64_t code);

/**
 * Asks the peer to send no more, with a `code` less than 2^62. Bytes that were not read are lost.
 */
qs_status qs_stream_stop(qs_stream stream, uint64_t code);

/**
 * Stores the stream's id (RFC 9000, section 2.1), which both sides know it by.
 */
qs_status qs_stream_id(qs_stream stream, uint64_t *id);

/**
 * Sets how urgent what is written is: 0 (most) to 7 (least), 3 at the start.
 */
qs_status qs_stream_set_urgency(qs_stream stream, uint8_t urgency);

/**
 * Sets how what is written is protected against loss from now on, by a text as for
 * `qs_config_set_protection`. Without `QS_FEATURE_FEC` it has no effect.
 */
qs_status qs_stream_set_protection(qs_stream stream, const char *protection);

/**
 * Says that the application now waits for an answer to what was written, so that repair may go out behind
 * it.
 */
qs_status qs_stream_flush(qs_stream stream);

/**
 * Attaches a number to an endpoint, a connection, a stream or a stream of messages: events about it have it
 * in their field `user`. An application may put a pointer into it.
 */
qs_status qs_set_user(uint64_t handle, uint64_t user);

/**
 * Frees whatever `handle` stands for; 0 is allowed and does nothing. The handle is of no use from then on,
 * and a call with it returns `QS_BAD_HANDLE`.
 *
 * * A stream is finished unless it was reset, and the peer is asked to send no more on it.
 * * A connection closes, with code 0, when its streams are freed, too. Close it to end them as well.
 * * An endpoint closes, and everything that was made from it is freed. That takes three probe timeouts of
 *   the path, or a second if that is less, so that the peers hear of it even if a packet is lost; call
 *   `qs_endpoint_wait_idle` before to wait longer, or not here.
 */
qs_status qs_free(uint64_t handle);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUICKSET_H */
