--@use entry
-- Saves a result under an effect, for its later attempts, or the outcome that the holder of the
-- effect has worked out and could not commit. An effect whose outcome is kept may start again, as
-- often as it takes to commit that, because its work is done; a person is asked in the end.
-- KEYS     record, saved results
-- ARGV     suffix, token, name of the result, the result as JSON, how many results a record may
--          have, '1' if it is the outcome
-- Returns  {status}: saved | full | lost
local record = KEYS[1]
local saved = KEYS[2]
local suffix = ARGV[1]
local token = ARGV[2]
local name = ARGV[3]
local result = ARGV[4]
local results_max = tonumber(ARGV[5])
local is_outcome = ARGV[6] == '1'

local entry = read_entry(record, suffix)
if not entry or entry.token ~= token or entry.state == 'draining' then
  return {'lost'}
end
local field = suffix .. ' ' .. name
local is_new = redis.call('HEXISTS', saved, field) == 0
-- What Interlock itself keeps, under a name with @, takes nobody's place.
local takes_place = is_new and string.sub(name, 1, 1) ~= '@'
if takes_place and redis.call('HLEN', saved) >= results_max then
  return {'full'}
end
redis.call('HSET', saved, field, result)
if is_outcome then
  entry.once = 0
  entry.no_restart = 0
  entry.fires_exhausted = 0
  write_entry(record, suffix, entry)
end
return {'saved'}
