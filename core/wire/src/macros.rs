//! The `wire!` macro: one declaration gives the type, its canonical encoding and its draw.

/// Declares structs and enums whose encoding is their fields in order.
///
/// A struct encodes its fields one after another. An enum writes a tag byte, given explicitly so that moving
/// a variant never changes the format, then the fields of the variant. Generic parameters are allowed on
/// enums with one parameter through plain `impl`s, not through this macro.
///
/// ```
/// use synod_wire::wire;
/// wire! {
///     /// What travels.
///     #[derive(Clone, Debug, PartialEq)]
///     pub enum Packet {
///         /// A question.
///         0 = Ask(u64),
///         /// An answer.
///         1 = Tell {
///             /// Of which question.
///             question: u64,
///             /// Yes or no.
///             yes: bool,
///         },
///         /// The end.
///         2 = Bye,
///     }
/// }
/// ```
#[macro_export]
macro_rules! wire {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $( $(#[$fmeta:meta])* $fvis:vis $field:ident : $type:ty ),* $(,)? }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis struct $name { $( $(#[$fmeta])* $fvis $field: $type ),* }
        impl $crate::Wire for $name {
            fn write(&self, out: &mut $crate::Writer) {
                let _ = &out;
                $( $crate::Wire::write(&self.$field, out); )*
            }
            fn read(input: &mut $crate::Reader) -> Result<Self, $crate::Malformed> {
                let _ = &input;
                Ok(Self { $( $field: $crate::Wire::read(input)? ),* })
            }
            fn size_hint(&self) -> usize { 0 $( + $crate::Wire::size_hint(&self.$field) )* }
        }
        impl $crate::Draw for $name {
            fn draw(from: &mut $crate::Drawn) -> Self {
                let _ = &from;
                Self { $( $field: $crate::Draw::draw(from) ),* }
            }
        }
        $crate::wire! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident ( $tvis:vis $type:ty );
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis struct $name($tvis $type);
        impl $crate::Wire for $name {
            fn write(&self, out: &mut $crate::Writer) { $crate::Wire::write(&self.0, out); }
            fn read(input: &mut $crate::Reader) -> Result<Self, $crate::Malformed> {
                Ok(Self($crate::Wire::read(input)?))
            }
            fn size_hint(&self) -> usize { $crate::Wire::size_hint(&self.0) }
        }
        impl $crate::Draw for $name {
            fn draw(from: &mut $crate::Drawn) -> Self { Self($crate::Draw::draw(from)) }
        }
        $crate::wire! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$vmeta:meta])* $tag:literal = $variant:ident
               $( ( $ptype:ty ) )?
               $( { $( $(#[$fmeta:meta])* $field:ident : $ftype:ty ),* $(,)? } )? ),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis enum $name { $( $(#[$vmeta])* $variant $( ( $ptype ) )? $( { $( $(#[$fmeta])* $field: $ftype ),* } )? ),* }
        impl $crate::Wire for $name {
            fn write(&self, out: &mut $crate::Writer) {
                $( $crate::wire!(@write self out $name $tag $variant $( ( $ptype ) )? $( { $( $field ),* } )? ); )*
            }
            fn read(input: &mut $crate::Reader) -> Result<Self, $crate::Malformed> {
                let refusal = input.refuse($crate::Why::UnknownTag(0));
                match <u8 as $crate::Wire>::read(input)? {
                    $( $tag => Ok($crate::wire!(@read input $variant $( ( $ptype ) )? $( { $( $field ),* } )? )), )*
                    tag => Err($crate::Malformed { why: $crate::Why::UnknownTag(tag), ..refusal }),
                }
            }
            fn size_hint(&self) -> usize {
                $( $crate::wire!(@size self $name $variant $( ( $ptype ) )? $( { $( $field ),* } )? ); )*
                1
            }
        }
        impl $crate::Draw for $name {
            fn draw(from: &mut $crate::Drawn) -> Self {
                let tags: &[u8] = &[ $( $tag ),* ];
                let pick = usize::try_from(from.below(tags.len() as u64)).unwrap_or(0);
                match tags[pick] {
                    $( $tag => $crate::wire!(@draw from $variant $( ( $ptype ) )? $( { $( $field ),* } )? ), )*
                    _ => unreachable!("the tag was picked from the list of tags"),
                }
            }
        }
        $crate::wire! { $($rest)* }
    };
    (@write $self:ident $out:ident $name:ident $tag:literal $variant:ident ( $ptype:ty )) => {
        if let $name::$variant(inner) = $self { $out.byte($tag); $crate::Wire::write(inner, $out); }
    };
    (@write $self:ident $out:ident $name:ident $tag:literal $variant:ident { $( $field:ident ),* }) => {
        if let $name::$variant { $( $field ),* } = $self { $out.byte($tag); $( $crate::Wire::write($field, $out); )* }
    };
    (@write $self:ident $out:ident $name:ident $tag:literal $variant:ident) => {
        if let $name::$variant = $self { $out.byte($tag); }
    };
    (@size $self:ident $name:ident $variant:ident ( $ptype:ty )) => {
        if let $name::$variant(inner) = $self { return 1 + $crate::Wire::size_hint(inner); }
    };
    (@size $self:ident $name:ident $variant:ident { $( $field:ident ),* }) => {
        if let $name::$variant { $( $field ),* } = $self { return 1 $( + $crate::Wire::size_hint($field) )*; }
    };
    (@size $self:ident $name:ident $variant:ident) => {};
    (@read $input:ident $variant:ident ( $ptype:ty )) => { Self::$variant($crate::Wire::read($input)?) };
    (@read $input:ident $variant:ident { $( $field:ident ),* }) => {
        Self::$variant { $( $field: $crate::Wire::read($input)? ),* }
    };
    (@read $input:ident $variant:ident) => { Self::$variant };
    (@draw $from:ident $variant:ident ( $ptype:ty )) => { Self::$variant($crate::Draw::draw($from)) };
    (@draw $from:ident $variant:ident { $( $field:ident ),* }) => {
        Self::$variant { $( $field: $crate::Draw::draw($from) ),* }
    };
    (@draw $from:ident $variant:ident) => { Self::$variant };
}
