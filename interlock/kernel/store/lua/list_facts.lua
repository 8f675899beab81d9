--@use clock
-- Lists what the computers say of themselves, but for those that have been silent for too long.
-- KEYS     hosts, announced
-- ARGV     ms of silence after which a computer is no longer believed
-- Returns  {host, facts, host, facts, ...}
local hosts = KEYS[1]
local announced = KEYS[2]
local silence_ms = tonumber(ARGV[1])

local found = {}
local since_ms = now_ms - silence_ms
for _, host in ipairs(redis.call('ZRANGE', announced, '(' .. since_ms, '+inf', 'BYSCORE')) do
  found[#found + 1] = host
  found[#found + 1] = redis.call('HGET', hosts, host)
end
return found
