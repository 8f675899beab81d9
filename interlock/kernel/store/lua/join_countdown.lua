-- Adds members to a countdown of a record while its placeholder is in. A repeat adds no member
-- twice; a member that has left joins again, and has to leave again.
-- KEYS     record, members
-- ARGV     ids of the members
-- Returns  {status}: joined | closed
local record = KEYS[1]
local members = KEYS[2]

local ended = redis.call('HGET', record, 'ended') == '1'
if ended or redis.call('SISMEMBER', members, '*') == 0 then
  return {'closed'}
end
redis.call('SADD', members, unpack(ARGV))
return {'joined'}
