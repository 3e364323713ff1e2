//! The first message of a client, read before TLS reads it (RFC 8446 §4.1.2): a server has to know in which
//! QUIC version it goes on before it can begin (RFC 9368 §2.3).

/// What the bytes so far say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HelloLook<'a> {
    /// The message goes on.
    More,
    /// It is there.
    Hello {
        /// The value of its extension quic_transport_parameters (RFC 9001 §8.2).
        params: Option<&'a [u8]>,
        /// It names a session to go on with (RFC 8446 §4.2.11).
        resumes: bool,
    },
    /// It is something else, and TLS will say what is wrong with it.
    Other,
}

pub(crate) fn look(bytes: &[u8]) -> HelloLook<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return HelloLook::More };
    let len = usize::from(head[1]) << 16 | usize::from(head[2]) << 8 | usize::from(head[3]);
    if head[0] != CLIENT_HELLO || len > MAX_HELLO {
        return HelloLook::Other;
    }
    match rest.get(..len) {
        Some(body) => read(body).unwrap_or(HelloLook::Other),
        None => HelloLook::More,
    }
}

fn read(body: &[u8]) -> Option<HelloLook<'_>> {
    let rest = body.get(VERSION_AND_RANDOM..)?;
    let (_session, rest) = counted::<1>(rest)?;
    let (_suites, rest) = counted::<2>(rest)?;
    let (_compression, rest) = counted::<1>(rest)?;
    let (mut extensions, _) = counted::<2>(rest)?;
    let (mut params, mut resumes) = (None, false);
    while let Some((kind, rest)) = extensions.split_first_chunk() {
        let (value, rest) = counted::<2>(rest)?;
        match u16::from_be_bytes(*kind) {
            QUIC_TRANSPORT_PARAMETERS => params = Some(value),
            PRE_SHARED_KEY => resumes = true,
            _ => {}
        }
        extensions = rest;
    }
    Some(HelloLook::Hello { params, resumes })
}

/// A length of `N` bytes and as many bytes, and what follows.
fn counted<const N: usize>(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<N>()?;
    rest.split_at_checked(len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
}

const CLIENT_HELLO: u8 = 1;
const VERSION_AND_RANDOM: usize = 2 + 32;
const PRE_SHARED_KEY: u16 = 41;
/// RFC 9001 §8.2.
const QUIC_TRANSPORT_PARAMETERS: u16 = 0x39;

/// Bytes of a hello that are waited for: some key exchanges are large, none like this.
const MAX_HELLO: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello by hand, with these extensions.
    fn hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, value) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
            list.extend_from_slice(value);
        }
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([2, 9, 9]); // a session id
        body.extend([0, 2, 0x13, 1]); // one suite
        body.extend([1, 0]); // no compression
        body.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
        body.extend(list);
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1][..], &len[1..], &body].concat()
    }

    #[test]
    fn parameters_are_found_and_tickets_noticed() {
        let of = |extensions: &[(u16, &[u8])]| {
            let bytes = hello(extensions);
            match look(&bytes) {
                HelloLook::Hello { params, resumes } => (params.map(<[u8]>::to_vec), resumes),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(of(&[]), (None, false));
        assert_eq!(of(&[(0, b"name"), (0x39, b"params"), (16, b"")]), (Some(b"params".to_vec()), false));
        assert_eq!(of(&[(0x39, b""), (41, b"ticket")]), (Some(Vec::new()), true));
    }

    #[test]
    fn what_is_cut_short_is_waited_for_and_what_is_wrong_is_not() {
        let whole = hello(&[(0x39, b"params"), (41, b"ticket")]);
        for len in 0..whole.len() {
            assert_eq!(look(&whole[..len]), HelloLook::More, "{len} bytes");
        }
        let behind = [&whole[..], b"more"].concat();
        assert_eq!(look(&behind), look(&whole));
        // Any byte may be wrong: nothing is read from where there is nothing.
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut wrong = whole.clone();
                wrong[at] = value;
                let _ = look(&wrong);
            }
        }
        assert_eq!(look(&[2, 0, 0, 0]), HelloLook::Other, "not a hello");
        assert_eq!(look(&[1, 1, 0, 1]), HelloLook::Other, "nobody waits for so much");
        assert_eq!(look(&[1, 0, 0, 4, 3, 3, 0, 0]), HelloLook::Other, "too short for one");
        let mut longer = whole.clone();
        let at = whole.len() - 8;
        longer[at] = 0xff;
        assert_eq!(look(&longer), HelloLook::Other, "an extension beyond the message");
    }
}
