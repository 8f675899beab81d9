"""The long-lived agent: sessions one after the other, interrupts, cool-downs.

`names` has its states, and its triggers with the sentence and the payload of each. `payloads` has
what an agent is created from and what each trigger and each mail carries, `data` what its record
holds; `limits` has every number of it. `stages` has what an agent owes in each state; `changes`
has guards and updates; `table` has the transitions.
"""
