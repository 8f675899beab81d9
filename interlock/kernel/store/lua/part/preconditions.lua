--@use holds_and_queues exclusive
-- Tells whether a record of the chain has fewer runs left than these. The script that counts runs
-- also tests them: otherwise records that start side by side would all take the last one.
local function lacks_runs(chain, runs)
  for _, counters in ipairs(chain) do
    local runs_max, used = unpack(redis.call('HMGET', counters, 'cap.runs', 'tree.runs'))
    if runs_max and tonumber(used or 0) + runs > tonumber(runs_max) then
      return true
    end
  end
  return false
end

-- Tests for what can prevent a commit whose warrant and version are good: a fact that the
-- decision read has changed, another record holds a name, no runs are left, or, where the effect of
-- the entered state has to be leased in the commit itself, the record is paused or its place is
-- occupied. Returns a status with its detail, or nil.
-- keys = {chain, facts: records read as facts, shared: holds and hold queue}
local function failed_precondition(plan, record, paused, keys)
  for n, version in ipairs(plan.fact_versions) do
    if redis.call('HGET', keys.facts[n], 'version') ~= version then
      return 'conflict', ''
    end
  end
  local holds, hold_queue = unpack(keys.shared)
  local holder = plan.shares and other_holder(holds, hold_queue, plan.shares.takes, plan.id)
  if holder then
    return 'held', holder
  end
  local runs = plan.deltas and plan.deltas.runs or 0
  if runs > 0 and lacks_runs(keys.chain, runs) then
    return 'over', ''
  end
  if not plan.leased_at then
    return nil
  end
  if paused and not plan.lease_optional then
    return 'paused', ''
  end
  local occupied = plan.lease_exclusive and occupied_until(record, '')
  if occupied then
    return 'busy', tostring(occupied)
  end
  return nil
end
