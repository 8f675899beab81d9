--@use new_effect fields
-- Creates the effects of a plan at a version of the record: puts their entries into `owner.fields`.
-- The one that is leased at once needs no message: no other process may claim it.
-- plan = {effects: the lines of their entries, nonce, leased_at: which one is leased at once,
--         slots: by its number, the name of the slots that an effect needs, which is field
--         's:<suffix>' of its record, ...}
local function create_effects(owner, plan, version, queues, messages)
  for n, line in ipairs(plan.effects) do
    if n ~= plan.leased_at then
      local suffix = version .. '.' .. (n - 1) .. ':' .. plan.nonce
      local slots = plan.slots and plan.slots[tostring(n)]
      put(owner.fields, 'e:' .. suffix, line)
      if slots then
        put(owner.fields, 's:' .. suffix, slots)
      end
      announce_effect(owner, suffix, queues[n], messages[n])
    end
  end
end
