--@use record_note
-- Sets the sums of records of a family to the values that follow from their data, and notes it.
-- Nothing is set where the family was changed since the data were read.
-- KEYS     family log, record of the root, log of the root, then the counters of each record
-- ARGV     plan: {position: of the newest commit when the data were read, sums: [{name: amount}],
--          one for each counters}, detail of the note
-- Returns  {status}: recounted | moved | missing
local family_log = KEYS[1]
local root = KEYS[2]
local root_log = KEYS[3]
local counters = {unpack(KEYS, 4)}
local plan = cjson.decode(ARGV[1])
local detail = ARGV[2]

local version = redis.call('HGET', root, 'version')
if not version then
  return {'missing'}
end
local newest = redis.call('XREVRANGE', family_log, '+', '-', 'COUNT', 1)[1]
local position = newest and newest[1] or '0-0'
if position ~= plan.position then
  return {'moved'}
end
for n, sums in ipairs(plan.sums) do
  for name, amount in pairs(sums) do
    redis.call('HSET', counters[n], name, amount)
  end
end
write_note(root_log, version, 'recounted', detail)
return {'recounted'}
