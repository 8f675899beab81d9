-- What may forbid a commit whose version is right: a fact that moved, a name that another record holds, runs that are used up, and, where the state's effect
-- is to be leased at once, a pause or a place that somebody may still be in. Returns {word, detail}, or nil.
local function forbidden(plan, record, facts, holds)
  for n, version in ipairs(plan.facts) do
    if redis.call('HGET', KEYS[facts + n], 'version') ~= version then return {'conflict', ''} end
  end
  local other = plan.shares and held_by_another(holds, plan.shares.takes, plan.id)
  if other then return {'held', other} end
  if (plan.deltas.runs or 0) > 0 and runs_out(12, plan.chain, plan.deltas.runs) then return {'over', ''} end
  if not plan.lease then return nil end
  if redis.call('HGET', record, 'paused') == '1' then return {'paused', ''} end
  local taken = plan.lease.exclusive and taken_until(record, '')
  return taken and {'busy', whole(taken)} or nil
end
