-- What a row does to the effects and timers of the state that it leaves, carries on or keeps.
local function revoke(record, effects, waits, chain, id, suffix, entry, grace_ms)
  local member = id .. ':' .. suffix
  if entry.state == 'leased' or entry.state == 'lapsed' then
    entry.state, entry.kill_by = 'draining', entry.lease_until + grace_ms
    entry_write(record, suffix, entry)
    redis.call('ZADD', effects, whole(entry.kill_by), member)
  elseif entry.state ~= 'draining' then
    unreserve(chain, entry, entry.begun == 1)
    redis.call('HDEL', record, 'e:' .. suffix)
    redis.call('ZREM', effects, member)
  end
end

local function carry(record, effects, id, suffix, entry)
  if entry.begun == 0 or entry.state == 'draining' then return end
  entry.carried = 1
  if entry.state == 'owed' then
    entry.state = 'lapsed'
    redis.call('ZADD', effects, whole(now), id .. ':' .. suffix)
  end
  entry_write(record, suffix, entry)
end

local function end_timers(record, timers, id, asks)
  for _, field in ipairs(redis.call('HKEYS', record)) do
    if string.sub(field, 1, 2) == 't:' and not (asks and field == 't:quarantine') then
      redis.call('HDEL', record, field)
      redis.call('ZREM', timers, id .. ':' .. string.sub(field, 3))
    end
  end
end
