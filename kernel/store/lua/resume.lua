--@use clock entry ops timer
-- Lifts the pause: every owed effect is due now, every timer runs on with what it had left.
-- KEYS  record, log, ops, ops' times, effects, timers
-- ARGV  id, op-id, digest, detail, window ms
-- Returns {word, suffix, name, ...}: what is owed and should be published
local record, id = KEYS[1], ARGV[1]
local stands = redis.call('HMGET', record, 'version', 'paused')
if not stands[1] then return {'missing'} end
local known = op_known(KEYS[3], ARGV[2], ARGV[3])
if known then return {known[1]} end
if stands[2] ~= '1' then return {'already'} end
redis.call('HSET', record, 'paused', '')
local answer = {'resumed'}
for _, suffix in ipairs(entries_of(record)) do
  local entry = entry_read(record, suffix)
  if entry.state == 'owed' then
    redis.call('ZADD', KEYS[5], whole(now), id .. ':' .. suffix)
    answer[#answer + 1], answer[#answer + 2] = suffix, entry.name
  end
end
for _, field in ipairs(redis.call('HKEYS', record)) do
  if string.sub(field, 1, 2) == 't:' then
    local _, born, left, fired = string.match(redis.call('HGET', record, field), '^(%S+) (%S+) (%S+) (%S+)$')
    if left ~= '-' then set_timer(record, KEYS[6], id, string.sub(field, 3), tonumber(left), born, fired, false) end
  end
end
redis.call('XADD', KEYS[2], stands[1] .. '-*', 'note', 'resume', 'detail', ARGV[4], 'at', whole(now))
op_record(KEYS[3], KEYS[4], ARGV[2], ARGV[3], stands[1], tonumber(ARGV[5]))
return answer
