--@use record_note
-- Sets the sums of records of a family to the values that follow from their data, and notes it.
-- Nothing is set where the family was changed since the data were read.
-- KEYS     family_log, record, log, counters...
-- ARGV     position, sums..., detail*
-- Returns  {status}: recounted | moved | missing
-- `record` and `log` are those of the root. `position` is that of the newest commit when the data
-- were read, and each of `sums` has {name: amount} for one of the counters.
local version = redis.call('HGET', record, 'version')
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
write_note(log, version, 'recounted', plan.detail)
return {'recounted'}
