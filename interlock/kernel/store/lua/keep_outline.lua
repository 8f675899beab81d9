-- Keeps the outline of a table by its digest, for as long as the store lives, and the names of its
-- states.
-- KEYS     outlines, states
-- ARGV     name, outline*, names*...
-- Returns  {'kept' | 'known'}
-- `name` is that of a machine and a digest; `names` are those of its states, each after the
-- machine's.
if redis.call('HSETNX', outlines, plan.name, plan.outline) == 0 then
  return {'known'}
end
for _, state in ipairs(plan.names) do
  redis.call('SADD', states, state)
end
return {'kept'}
