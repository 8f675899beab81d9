-- Lists one page of several sorted sets of one partition as if they were one, in the order of their
-- scores, and of their members where scores are equal.
-- KEYS     sorted sets
-- ARGV     'oldest' or 'newest', which comes first; then the score and the member after which the
--          page begins (with an empty member the page begins with this score); the last score;
--          how many at most
-- Returns  {position in KEYS, member, score, ...}
local newest = ARGV[1] == 'newest'
local first_score = ARGV[2]
local first_member = ARGV[3]
local last_score = ARGV[4]
local limit = tonumber(ARGV[5])
local page = {}

local function comes_before(score, member, other_score, other_member)
  if score == other_score then
    return newest and member > other_member or not newest and member < other_member
  end
  return newest and score > other_score or not newest and score < other_score
end

local function rows_of(index, offset)
  if newest then
    return redis.call(
      'ZRANGE', index, first_score, last_score, 'BYSCORE', 'REV', 'LIMIT', offset, limit,
      'WITHSCORES'
    )
  end
  return redis.call(
    'ZRANGE', index, first_score, last_score, 'BYSCORE', 'LIMIT', offset, limit, 'WITHSCORES'
  )
end

for position, index in ipairs(KEYS) do
  local found, offset = 0, 0
  repeat
    local rows = rows_of(index, offset)
    for n = 1, #rows, 2 do
      local member, score = rows[n], rows[n + 1]
      local is_later = first_member == '' or score ~= first_score
        or comes_before(tonumber(score), first_member, tonumber(score), member)
      if is_later then
        page[#page + 1] = {position, member, score}
        found = found + 1
      end
    end
    offset = offset + limit
  until found >= limit or #rows < 2 * limit
end
table.sort(page, function(one, other)
  return comes_before(tonumber(one[3]), one[2], tonumber(other[3]), other[2])
end)
local reply = {}
for n = 1, math.min(limit, #page) do
  local position, member, score = unpack(page[n])
  reply[#reply + 1] = position
  reply[#reply + 1] = member
  reply[#reply + 1] = score
end
return reply
