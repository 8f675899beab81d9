--@use new_effect fields
-- Creates the effects of a plan at a version of the record: puts their entries into `owner.fields`.
-- The one that lease_at_once() leases afterwards has no message: no other process may claim it. In
-- a paused record nothing is leased. A late one has none either: the next commit replaces it, or a
-- sweep publishes it. Returns how many messages were for these effects.
-- plan = {effects: the lines of their entries, nonce, leased_at, late_at: which ones these are,
--         slots: by its number, the name of the slots that an effect needs, which is field
--         's:<suffix>' of its record, ...}
local function create_effects(owner, plan, version, queues, messages)
  local used = 0
  for n, line in ipairs(plan.effects) do
    local has_message = n ~= plan.leased_at and n ~= plan.late_at
    used = has_message and used + 1 or used
    local suffix = version .. '.' .. (n - 1) .. ':' .. plan.nonce
    local slots = plan.slots and plan.slots[tostring(n)]
    put(owner.fields, 'e:' .. suffix, line)
    if slots then
      put(owner.fields, 's:' .. suffix, slots)
    end
    if has_message then
      announce_effect(owner, suffix, queues[used], messages[used])
    else
      announce_effect(owner, suffix)
    end
  end
  return used
end
