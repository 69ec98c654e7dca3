//! What is kept in memory, within one byte budget.
