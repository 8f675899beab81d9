"""Commands for operators that span systems: top, doctor, verify, events, up."""
