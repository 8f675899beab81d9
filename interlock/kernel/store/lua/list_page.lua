-- Lists one page of several sorted sets of one partition as if they were one, in the order of their
-- scores, and of their members where scores are equal.
-- KEYS     indexes...
-- ARGV     order, first_score, first_member, last_score, limit
-- Returns  {position in indexes, member, score, ...}
-- `order` says which comes first: oldest | newest. The page begins after the first score and
-- member; with an empty member it begins with this score.
local newest = plan.order == 'newest'
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
      'ZRANGE', index, plan.first_score, plan.last_score, 'BYSCORE', 'REV',
      'LIMIT', offset, plan.limit, 'WITHSCORES'
    )
  end
  return redis.call(
    'ZRANGE', index, plan.first_score, plan.last_score, 'BYSCORE',
    'LIMIT', offset, plan.limit, 'WITHSCORES'
  )
end

for position, index in ipairs(indexes) do
  local found, offset = 0, 0
  repeat
    local rows = rows_of(index, offset)
    for n = 1, #rows, 2 do
      local member, score = rows[n], rows[n + 1]
      local is_later = plan.first_member == '' or score ~= plan.first_score
        or comes_before(tonumber(score), plan.first_member, tonumber(score), member)
      if is_later then
        page[#page + 1] = {position, member, score}
        found = found + 1
      end
    end
    offset = offset + plan.limit
  until found >= plan.limit or #rows < 2 * plan.limit
end
table.sort(page, function(one, other)
  return comes_before(tonumber(one[3]), one[2], tonumber(other[3]), other[2])
end)
local reply = {}
for n = 1, math.min(plan.limit, #page) do
  local position, member, score = unpack(page[n])
  reply[#reply + 1] = position
  reply[#reply + 1] = member
  reply[#reply + 1] = score
end
return reply
