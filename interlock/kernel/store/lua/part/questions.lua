-- The questions for publications, of all computers together: a name begins with its computer.

local function forget_questions(asked, asked_since, until_ms)
  for _, name in ipairs(redis.call('ZRANGE', asked, '-inf', until_ms, 'BYSCORE')) do
    redis.call('ZREM', asked, name)
    redis.call('ZREM', asked_since, name)
  end
end
