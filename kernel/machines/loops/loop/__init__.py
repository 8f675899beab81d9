"""The long-lived agent: sessions one after the other, interrupts, cool-downs."""
