//! What there is to say of a file, made once for all answers that have it, and the dates of HTTP.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use quickset::h3::{Field, Response};

use super::condition::{self, ConditionVerdict, RequestConditions, Selected};
use super::{AnswerContent, FileAnswer, bare, text};

/// A file as it is shown: whole, in parts, or not again.
#[derive(Clone, Debug)]
pub(super) struct Representation {
    selected: Selected,
    /// The tag, the date, whether there are other codings of it, and what caches are told.
    validators: Vec<Field>,
    media: Bytes,
    coding: Option<&'static str>,
    /// Its length as a field has it.
    whole: Bytes,
}

impl Representation {
    /// What was selected, in this coding, of a media type; `varies` where there are others of it.
    pub(super) fn new(selected: Selected, coding: Option<&'static str>, media: String, varies: bool) -> Self {
        let mut validators = vec![Field::new("etag", selected.etag.clone())];
        if let Some(dates) = selected.dates {
            validators.push(Field::new("last-modified", dated(dates.modified)));
        }
        if varies {
            validators.push(Field::new("vary", "accept-encoding"));
        }
        let whole = selected.len.to_string().into();
        Self { selected, validators, media: media.into(), coding, whole }
    }

    /// What caches are told of it, where its bytes come and where they need not (RFC 9110 §15.3.7, §15.4.5).
    pub(super) fn add_cache_control(&mut self, value: Bytes) {
        self.validators.push(Field::new("cache-control", value));
    }

    /// The answer to what was asked of it. `content` gives so many bytes from there on.
    pub(super) fn answer(
        &self,
        asked: &RequestConditions<'_>,
        content: impl FnOnce(u64, u64) -> AnswerContent,
    ) -> FileAnswer {
        let len = self.selected.len;
        let (status, from, n) = match condition::decide(asked, &self.selected) {
            // RFC 9110 §15.4.5: with what a 200 would have said of it.
            ConditionVerdict::NotModified => return bare(self.with_validators(304)),
            ConditionVerdict::Failed => return text(Response::new(412), "It is not as you expect.\n"),
            ConditionVerdict::Unsatisfiable => {
                let response = Response::new(416).with("content-range", format!("bytes */{len}"));
                return text(response, "None of these bytes is there.\n");
            }
            ConditionVerdict::Whole => (200, 0, len),
            ConditionVerdict::Part { from, len } => (206, from, len),
        };
        let mut response = self
            .with_validators(status)
            .with("content-type", self.media.clone())
            .with("content-length", if n == len { self.whole.clone() } else { n.to_string().into() })
            .with("accept-ranges", "bytes");
        if let Some(coding) = self.coding {
            response = response.with("content-encoding", coding);
        }
        if status == 206 {
            response = response.with("content-range", format!("bytes {from}-{}/{len}", from + n - 1));
        }
        FileAnswer { response, content: content(from, n) }
    }

    fn with_validators(&self, status: u16) -> Response {
        let mut fields = Vec::with_capacity(FIELDS);
        fields.extend_from_slice(&self.validators);
        Response { status, fields }
    }
}

/// The date of this second, written once.
#[derive(Debug, Default)]
pub(super) struct Calendar(Mutex<Option<(u64, Bytes)>>);

impl Calendar {
    pub(super) fn date(&self, now: SystemTime) -> Bytes {
        let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*page {
            Some((of, date)) if *of == second => date.clone(),
            _ => page.insert((second, dated(now).into())).1.clone(),
        }
    }
}

/// As HTTP writes it, which has the years 1970 to 9999 (RFC 9110 §5.6.7): of a clock that is further from the
/// truth, the nearest.
pub(in super::super) fn dated(time: SystemTime) -> String {
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(LAST_SECOND);
    httpdate::fmt_http_date(time.clamp(SystemTime::UNIX_EPOCH, last))
}

/// Fields that an answer has, without those for scripts of others.
const FIELDS: usize = 12;

/// Of the year 9999, since 1970.
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of a machine may be set to any time while it serves.
    #[test]
    fn the_date_is_that_of_the_moment() {
        let calendar = Calendar::default();
        let at = |seconds: f64| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds);
        assert_eq!(calendar.date(at(1.0)), "Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(calendar.date(at(1.9)), "Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(calendar.date(at(2.0)), "Thu, 01 Jan 1970 00:00:02 GMT");
        assert_eq!(calendar.date(at(0.0)), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(calendar.date(at(0.0) - Duration::from_secs(5)), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
