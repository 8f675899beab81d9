--@use clock entry
-- Leases an effect to the holder of its token from now on.
local function lease(record, effects, id, suffix, entry, holder, lease_ms)
  entry.state = 'leased'
  entry.holder = holder
  entry.polls = 0
  entry.lease_until = now_ms + lease_ms
  entry.kill_by = entry.lease_until + entry.grace_ms
  write_entry(record, suffix, entry)
  redis.call('ZADD', effects, string.format('%d', entry.lease_until), id .. ':' .. suffix)
end
