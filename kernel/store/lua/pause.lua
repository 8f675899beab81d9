--@use clock entry ops
-- Sets the pause flag: owed effects leave the index, timers keep their remainder; holders hear of it at their next renewal.
-- KEYS  record, log, ops, ops' times, effects, timers
-- ARGV  id, op-id, digest, detail, window ms
-- Returns {word}
local record, id = KEYS[1], ARGV[1]
local stands = redis.call('HMGET', record, 'version', 'ended', 'paused')
if not stands[1] then return {'missing'} end
local known = op_known(KEYS[3], ARGV[2], ARGV[3])
if known then return {known[1]} end
if stands[2] == '1' then return {'ended'} end
if stands[3] == '1' then return {'already'} end
redis.call('HSET', record, 'paused', '1')
for _, suffix in ipairs(entries_of(record)) do
  if entry_read(record, suffix).state == 'owed' then redis.call('ZREM', KEYS[5], id .. ':' .. suffix) end
end
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 't:' then
    local due_at, born, _, fired = string.match(redis.call('HGET', record, field), '^(%S+) (%S+) (%S+) (%S+)$')
    redis.call('HSET', record, field, due_at .. ' ' .. born .. ' ' .. whole(math.max(tonumber(due_at) - now, 0)) .. ' ' .. fired)
    redis.call('ZREM', KEYS[6], id .. ':' .. string.sub(field, 3))
  end
end
redis.call('XADD', KEYS[2], stands[1] .. '-*', 'note', 'pause', 'detail', ARGV[4], 'at', whole(now))
op_record(KEYS[3], KEYS[4], ARGV[2], ARGV[3], stands[1], tonumber(ARGV[5]))
return {'paused'}
