-- Lists the commits of a family in its chronicle again, where they stood; what is listed already is passed over.
-- KEYS  chronicle, holds
-- ARGV  name that is held meanwhile, by whom, then for each commit its position, its record, its version
-- Returns {word}: relisted | closed
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return {'closed'} end
local function parts(position)
  local ms, number = string.match(position, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local last_ms, last_number = parts(newest and newest[1] or '0-0')
for at = 3, #ARGV, 3 do
  local ms, number = parts(ARGV[at])
  if ms > last_ms or ms == last_ms and number > last_number then
    redis.call('XADD', KEYS[1], ARGV[at], 'of', ARGV[at + 1], 'version', ARGV[at + 2])
    last_ms, last_number = ms, number
  end
end
return {'relisted'}
