--@use clock
--@use questions
-- Lists the publications for which a computer is asked now, the longest unasked first.
-- KEYS     asked, asked since
-- ARGV     beginning of the computer's names, ms for which a question counts, how many it may have
-- Returns  {name, ...}
local asked = KEYS[1]
local asked_since = KEYS[2]
local beginning = ARGV[1]
local counts_ms = tonumber(ARGV[2])
local most = tonumber(ARGV[3])

forget_questions(asked, asked_since, now_ms - counts_ms)
local found = {}
for _, name in ipairs(redis.call('ZRANGE', asked, 0, -1)) do
  if string.sub(name, 1, #beginning) == beginning then
    found[#found + 1] = name
  end
end
return {unpack(found, math.max(#found - most, 0) + 1)}
