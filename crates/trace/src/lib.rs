//! Trace formats, one file each, reading and writing.
