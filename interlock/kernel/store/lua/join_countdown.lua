-- Adds members to a countdown of a record while its placeholder is in. A repeat adds no member
-- twice; a member that has left joins again, and has to leave again.
-- KEYS     record, members
-- ARGV     joining*...
-- Returns  {status}: joined | closed
-- `joining` are ids of records.
local ended = redis.call('HGET', record, 'ended') == '1'
if ended or redis.call('SISMEMBER', members, '*') == 0 then
  return {'closed'}
end
redis.call('SADD', members, unpack(plan.joining))
return {'joined'}
