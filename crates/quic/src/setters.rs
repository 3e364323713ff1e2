//! How configurations are made: a default, and what is to be different said one by one.

/// Gives a type of public fields, which may get more of them, a `with_` method for each that is named.
macro_rules! setters {
    ($of:ident { $($(#[$attribute:meta])* $set:ident: $field:ident: $type:ty,)* }) => {
        impl $of {
            $(
                #[doc = concat!("The same with this [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                $(#[$attribute])*
                #[must_use]
                pub fn $set(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )*
        }
    };
}
