--@use clock
-- Looks at due timers and moves each one's score in the same step; what is true is the record's own field.
-- KEYS  timers, then one record a member
-- ARGV  plan: {members: [{id, name, jitter}], look_ms}
-- Returns {word, due at, born, fired, ...} four words a member: due | later | gone | taken
local plan, answers = cjson.decode(ARGV[1]), {}
for n, look in ipairs(plan.members) do
  local member, word, due_at, born, left, fired = look.id .. ':' .. look.name, 'due', '0', '0', '-', '0'
  local score, timer = redis.call('ZSCORE', KEYS[1], member), redis.call('HGET', KEYS[1 + n], 't:' .. look.name)
  if timer then due_at, born, left, fired = string.match(timer, '^(%S+) (%S+) (%S+) (%S+)$') end
  if not score or tonumber(score) > now then word = 'taken'
  elseif not timer or left ~= '-' then redis.call('ZREM', KEYS[1], member); word = 'gone'
  elseif tonumber(due_at) > now then redis.call('ZADD', KEYS[1], due_at, member); word = 'later'
  else
    -- The further it is overdue, the longer until the next look.
    local late = math.min(math.max(now - tonumber(due_at), plan.look_ms), 900000)
    redis.call('ZADD', KEYS[1], whole(now + late * look.jitter), member)
  end
  local base = 4 * n
  answers[base - 3], answers[base - 2], answers[base - 1], answers[base] = word, due_at, born, fired
end
return answers
