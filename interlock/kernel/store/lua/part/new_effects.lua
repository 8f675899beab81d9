--@use new_effect fields
-- Creates the effects of a plan at a version of the record: puts their entries into `owner.fields`.
-- The one that is leased at once has no message: no other process may claim it. In a paused record
-- nothing is leased. Returns how many messages were for these effects.
-- plan = {effects: the lines of their entries, nonce, leased_at: which one is leased at once,
--         slots: by its number, the name of the slots that an effect needs, which is field
--         's:<suffix>' of its record, ...}
local function create_effects(owner, plan, version, queues, messages)
  local used = 0
  for n, line in ipairs(plan.effects) do
    used = n ~= plan.leased_at and used + 1 or used
    if n ~= plan.leased_at or owner.paused then
      local suffix = version .. '.' .. (n - 1) .. ':' .. plan.nonce
      local slots = plan.slots and plan.slots[tostring(n)]
      put(owner.fields, 'e:' .. suffix, line)
      if slots then
        put(owner.fields, 's:' .. suffix, slots)
      end
      announce_effect(owner, suffix, queues[used], messages[used])
    end
  end
  return used
end
