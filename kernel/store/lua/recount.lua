--@use clock
-- Sets what records of a family sum, as their data say it, and notes it; nothing where the family has moved since that was read.
-- KEYS  chronicle, root's record, root's log, then counters of each record
-- ARGV  plan: {position: of the newest commit when it was read, sums: [{name: amount}] as the counters come}, note
-- Returns {word}: recounted | moved | missing
local plan = cjson.decode(ARGV[1])
local version = redis.call('HGET', KEYS[2], 'version')
if not version then return {'missing'} end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if (newest and newest[1] or '0-0') ~= plan.position then return {'moved'} end
for n, sums in ipairs(plan.sums) do
  for name, amount in pairs(sums) do redis.call('HSET', KEYS[3 + n], name, amount) end
end
redis.call('XADD', KEYS[3], version .. '-*', 'note', 'recounted', 'detail', ARGV[2], 'at', now_text)
return {'recounted'}
