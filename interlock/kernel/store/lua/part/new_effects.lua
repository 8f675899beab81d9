--@use new_effect
-- Creates the effects of a plan at a version of the record. Returns the suffix of the effect that
-- the caller is to lease at once, or nil. That one needs no message: no other process may claim it.
local function create_effects(owner, plan, version, queues, messages)
  local leased_suffix = nil
  for n, new in ipairs(plan.effects) do
    local suffix = version .. '.' .. (n - 1) .. ':' .. plan.nonce
    if plan.initial_lease and new.kind == 'state' then
      leased_suffix = suffix
      create_effect(owner, suffix, new)
    else
      create_effect(owner, suffix, new, queues[n], messages[n])
    end
  end
  return leased_suffix
end
