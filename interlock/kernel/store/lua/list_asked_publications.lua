--@use clock
--@use questions
-- Lists the publications for which a computer is asked now, the longest unasked first.
-- KEYS     asked, asked_since
-- ARGV     beginning, counts_ms, most
-- Returns  {name, ...}
-- The computer's names begin with `beginning`; a question counts for `counts_ms`, at most
-- `most` do.
forget_questions(asked, asked_since, now_ms - plan.counts_ms)
local found = {}
for _, name in ipairs(redis.call('ZRANGE', asked, 0, -1)) do
  if string.sub(name, 1, #plan.beginning) == plan.beginning then
    found[#found + 1] = name
  end
end
return {unpack(found, math.max(#found - plan.most, 0) + 1)}
