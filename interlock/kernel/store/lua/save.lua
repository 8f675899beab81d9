--@use entry
-- Saves a result under an effect, for its later attempts, or the outcome that the holder of the
-- effect has worked out and could not commit. An effect whose outcome is kept may start again, as
-- often as it takes to commit that, because its work is done; a person is asked in the end.
-- KEYS     record, saved
-- ARGV     suffix, token, name, result*, results_max, is_outcome?
-- Returns  {status}: saved | full | lost
local entry = read_entry(record, plan.suffix)
if not entry or entry.token ~= plan.token or entry.state == 'draining' then
  return {'lost'}
end
local field = plan.suffix .. ' ' .. plan.name
local is_new = redis.call('HEXISTS', saved, field) == 0
-- What Interlock itself keeps, under a name with @, takes nobody's place.
local takes_place = is_new and string.sub(plan.name, 1, 1) ~= '@'
if takes_place and redis.call('HLEN', saved) >= plan.results_max then
  return {'full'}
end
redis.call('HSET', saved, field, plan.result)
if plan.is_outcome then
  entry.once = 0
  entry.no_restart = 0
  entry.fires_exhausted = 0
  write_entry(record, plan.suffix, entry)
end
return {'saved'}
