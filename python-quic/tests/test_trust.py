"""Whom a client believes, and what is no argument."""

import asyncio

import pytest
from conftest import pair

import quickset


def test_who_is_believed(run, tmp_path):
    identity = quickset.Identity.self_signed("localhost", "127.0.0.1")
    other = quickset.Identity.self_signed("localhost")
    (tmp_path / "ca.pem").write_text(identity.certificate_pem)
    (tmp_path / "key.pem").write_text(identity.private_key_pem)
    (tmp_path / "other.pem").write_text(other.certificate_pem)

    async def case():
        loaded = quickset.Identity.load(tmp_path / "ca.pem", tmp_path / "key.pem")
        assert loaded.fingerprint == identity.fingerprint != other.fingerprint
        async with await quickset.serve(
            None, "127.0.0.1", alpn=["b/1", "a/1"], identity=loaded, ask_clients=False
        ) as server:

            async def reach(**how):
                async with await quickset.connect(
                    "127.0.0.1", server.port, **{"alpn": "a/1", **how}
                ) as connection:
                    return connection.alpn, connection.peer_fingerprint

            expected = ("a/1", identity.fingerprint)
            assert await reach(pin=server.fingerprint) == expected
            assert await reach(pin=[other.fingerprint, server.fingerprint]) == expected
            assert await reach(ca=tmp_path / "ca.pem") == expected
            assert await reach(insecure=True) == expected
            assert (await reach(insecure=True, alpn=["a/1", "b/1"]))[0] == "b/1"
            for how in (
                {"pin": other.fingerprint},
                {"ca": tmp_path / "other.pem"},
                # Of the system's authorities none has signed it.
                {},
                {"ca": tmp_path / "ca.pem", "server_name": "elsewhere.example"},
                {"insecure": True, "alpn": "c/1"},
            ):
                with pytest.raises(quickset.ConnectError) as error:
                    await reach(**how)
                assert error.value.kind in ("failed", "peer"), error.value
                assert isinstance(error.value, quickset.ConnectionClosed)

            # A client that shows who it is.
            client = await quickset.connect(
                "127.0.0.1", server.port, alpn="a/1", insecure=True, identity=other
            )
            async for peer in server:
                if peer.close_reason is None and peer.peer_fingerprint is not None:
                    break
            assert peer.peer_fingerprint == other.fingerprint
            client.close()
            server.set_identity(other)
            assert await reach(pin=other.fingerprint) == ("a/1", other.fingerprint)

    run(case)


def test_nobody_there(run):
    async def case():
        with pytest.raises(quickset.ConnectError) as error:
            await quickset.connect("127.0.0.1", 9, alpn="a/1", insecure=True, handshake_timeout=0.5)
        assert error.value.kind in ("unreachable", "timeout")
        with pytest.raises(OSError):
            await quickset.connect("no-such-host.invalid", 9, alpn="a/1", insecure=True)

    run(case)


WRONG = [
    ({"alpn": ""}, ValueError),
    ({"alpn": []}, ValueError),
    ({"alpn": "x" * 256}, ValueError),
    ({"alpn": 5}, TypeError),
    ({"alpn": [b"a"]}, TypeError),
    ({"idle_timeout": -1.0}, ValueError),
    ({"idle_timeout": float("nan")}, ValueError),
    ({"idle_timeout": float("inf")}, ValueError),
    ({"idle_timeout": "30"}, TypeError),
    ({"max_message": 1500.0}, TypeError),
    ({"keep_alive": 0.0}, ValueError),
    ({"congestion": "fastest"}, ValueError),
    ({"max_message": 0}, ValueError),
    ({"max_message": 1 << 70}, ValueError),
    ({"max_streams": 1 << 63}, ValueError),
    ({"max_streams": -1}, ValueError),
    ({"protection": "nonsense"}, ValueError),
    ({"protection": 3}, TypeError),
    ({"host": 3}, TypeError),
    ({"port": -1}, ValueError),
    ({"port": 65536}, ValueError),
    ({"port": "443"}, ValueError),
    ({"send_buffer": -5}, ValueError),
]


@pytest.mark.parametrize(("wrong", "kind"), WRONG)
def test_nonsense_is_refused(run, wrong, kind):
    async def case():
        with pytest.raises(kind):
            await quickset.connect(
                **{"host": "127.0.0.1", "port": 9, "alpn": "a/1", "insecure": True, **wrong}
            )
        if "host" not in wrong:
            with pytest.raises(kind):
                await quickset.serve(**{"host": "127.0.0.1", "alpn": "a/1", **wrong})

    run(case)


def test_nonsense_of_trust_is_refused(run, tmp_path):
    (tmp_path / "empty.pem").write_text("")

    async def case():
        for wrong in (
            {"pin": "sha256:00"},
            {"pin": []},
            {"pin": "sha256:" + "0" * 64, "insecure": True},
            {"ca": tmp_path / "empty.pem"},
        ):
            with pytest.raises(ValueError):
                await quickset.connect("127.0.0.1", 9, alpn="a/1", **wrong)
        with pytest.raises(FileNotFoundError):
            await quickset.connect("127.0.0.1", 9, alpn="a/1", ca=tmp_path / "absent.pem")

    run(case)
    for names in ([], ["é" * 300]):
        with pytest.raises(ValueError):
            quickset.Identity.self_signed(*names)
    for certificates, key in (("", ""), ("x", "y")):
        with pytest.raises(ValueError):
            quickset.Identity.from_pem(certificates, key)
    assert quickset.check_protection("rs:105/100") == "rs:105/100"
    with pytest.raises(ValueError, match="rs:"):
        quickset.check_protection("rs:")


def test_nonsense_for_streams_is_refused(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            for wrong in ("text", 5, None, [1, 2], object()):
                with pytest.raises(TypeError, match="bytes, a bytearray or a memoryview"):
                    await send.write(wrong)
                with pytest.raises(TypeError, match="bytes, a bytearray or a memoryview"):
                    await client.send_datagram(wrong)
            await send.write(b"")
            for wrong in (0, -1, "4", None):
                with pytest.raises((ValueError, OverflowError, TypeError)):
                    await receive.read(wrong)
            for wrong in (-1, 1 << 62, 1 << 64, "1"):
                with pytest.raises((ValueError, OverflowError, TypeError)):
                    send.reset(wrong)
                with pytest.raises((ValueError, OverflowError, TypeError)):
                    client.close(wrong)
            with pytest.raises(TypeError):
                client.close(0, "text")
            sender = await client.open_messages()
            for wrong in (-1.0, float("nan"), float("inf"), 1e300):
                with pytest.raises(ValueError, match="seconds"):
                    await sender.send(b"x", deadline=wrong)
            with pytest.raises(TypeError):
                await sender.send_messages([b"fine", "text"])
            assert sender.stats().queued == 0
            # After all that it still works, with numbers as large as they may be.
            huge = asyncio.ensure_future(receive.read(1 << 62))
            await send.write(b"x", finish=True)
            back, _ = await server.accept_bi()
            await back.write(b"y", finish=True)
            assert await huge == b"y"
            client.close((1 << 62) - 1, b"r" * 10_000)
            closed = await server.closed()
            assert closed.code == (1 << 62) - 1 and closed.reason == b"r" * 256

    run(case)
