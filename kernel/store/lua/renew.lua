--@use clock entry
-- Prolongs the leases that one process holds in one partition, and answers each with an order: go, interrupt, pause, stop or lost.
-- KEYS  effects, waits, timers, then one record a lease
-- ARGV  leases: [{id, suffix, token, ms, acked}]
-- Returns {order, interrupt number, ...} two words a lease
local answers = {}
for n, lease in ipairs(cjson.decode(ARGV[1])) do
  local record, order = KEYS[3 + n], 'go'
  local entry = entry_read(record, lease.suffix)
  local posted = entry and entry.posted or 0
  if not entry or entry.token ~= lease.token or entry.state == 'owed' then order = 'lost'
  elseif entry.state == 'draining' then order = 'stop'
  else
    local member, stands = lease.id .. ':' .. lease.suffix, redis.call('HGET', record, 'paused')
    local was = entry.state
    entry.state, entry.acked = 'leased', math.max(entry.acked, lease.acked)
    entry.lease_until = now + lease.ms
    entry.kill_by = entry.lease_until + entry.grace
    entry_write(record, lease.suffix, entry)
    if was == 'quarantined' then unquarantine(record, KEYS[2], KEYS[3], lease.id) end
    redis.call('ZADD', KEYS[1], whole(entry.lease_until), member)
    if stands == '1' then order = 'pause' elseif entry.posted > entry.acked then order = 'interrupt' end
  end
  answers[2 * n - 1], answers[2 * n] = order, whole(posted)
end
return answers
