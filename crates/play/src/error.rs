use thiserror::Error;

use crate::template::TemplateError;
use crate::url::UrlError;

/// Why a manifest cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// Longer than 8 MiB.
    #[error("a manifest of {0} bytes; at most {MAX_TEXT} are read")]
    TooLong(usize),
    /// What it says of segments takes more than 64 MiB, or it has more than a thousand representations.
    #[error("the manifest has more representations and segments than are kept")]
    TooLarge,
    /// An element has more than 256 attributes, or all together declare more than 2000 namespaces.
    #[error("the manifest has more attributes or namespaces than are read")]
    Crowded,
    /// It is no XML.
    #[error("the manifest is no XML: {0}")]
    Xml(String),
    /// It is XML of something else.
    #[error("the manifest is no MPD, but {0:?}")]
    Root(String),
    /// It is of a live stream.
    #[error("the presentation is live, which is not played; those on demand are")]
    Live,
    /// A period is in another document.
    #[error("a period of the manifest is in another document, which is not fetched")]
    Remote,
    /// Nothing says how long a period is.
    #[error("the manifest does not say how long period {0} is")]
    Duration(usize),
    /// There is neither picture nor sound.
    #[error("the manifest has neither pictures nor sound")]
    Nothing,
    /// An attribute that is needed is not there.
    #[error("{element} has no {attribute}")]
    Missing {
        /// The element.
        element: String,
        /// What it lacks.
        attribute: &'static str,
    },
    /// An attribute has a value that it cannot have.
    #[error("{element} has {attribute}={value:?}, which it cannot have")]
    Value {
        /// The element.
        element: String,
        /// The attribute.
        attribute: String,
        /// As much of its value as a message has room for.
        value: String,
    },
    /// Runs of a timeline are not one after the other, or go on beyond 64 bits.
    #[error("a SegmentTimeline is not in order")]
    Timeline,
    /// Many segments each play for less than a millisecond.
    #[error("{0} has segments of less than a millisecond, which are not played")]
    Short(String),
    /// An address is none.
    #[error("the manifest names an address that is none: {0}")]
    Url(#[from] UrlError),
    /// A template is none.
    #[error("the manifest has a template that is none: {0}")]
    Template(#[from] TemplateError),
    /// Segments are on another server.
    #[error("the manifest points to {0}, another server than its own")]
    Elsewhere(String),
}

/// Bytes of a manifest at most.
pub(crate) const MAX_TEXT: usize = 8 << 20;
