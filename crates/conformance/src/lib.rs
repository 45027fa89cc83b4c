//! What every verbs device must do, and the sample programs.
