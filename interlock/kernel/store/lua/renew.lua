--@use clock entry quarantine metrics
-- Renews the leases that one process holds in one partition, and answers each with an order.
-- KEYS     effects, waits, timers, metrics, records...
-- ARGV     leases...
-- Returns  {order, interrupts posted, ...}, two values a lease; order: go | interrupt | pause |
--          stop | lost
-- Each lease is {id, suffix, token, lease_ms, acknowledged}, in the order of the records.

-- Renews one lease and returns the order for its holder.
local function renew(record, lease, entry)
  if not entry or entry.token ~= lease.token then
    return 'lost'
  end
  if entry.state == 'draining' then
    return 'stop'
  end
  if now_ms > entry.lease_until then
    count(metrics, 'late', entry.name)
  end
  local paused = redis.call('HGET', record, 'paused') == '1'
  local was_quarantined = entry.state == 'quarantined'
  entry.state = 'leased'
  entry.acknowledged = math.max(entry.acknowledged, lease.acknowledged)
  entry.lease_until = now_ms + lease.lease_ms
  entry.kill_by = entry.lease_until + entry.grace_ms
  write_entry(record, lease.suffix, entry)
  if was_quarantined then
    stop_asking(record, waits, timers, lease.id)
  end
  redis.call('ZADD', effects, entry.lease_until, lease.id .. ':' .. lease.suffix)
  if paused then
    return 'pause'
  end
  return entry.interrupts > entry.acknowledged and 'interrupt' or 'go'
end

local answers = {}
for n, lease in ipairs(plan.leases) do
  local entry = read_entry(records[n], lease.suffix)
  answers[2 * n - 1] = renew(records[n], lease, entry)
  answers[2 * n] = tostring(entry and entry.interrupts or 0)
end
return answers
