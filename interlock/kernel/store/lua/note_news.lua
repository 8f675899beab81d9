-- Notes what was reported of a partition, so that it is no news any more.
-- KEYS     reported cards, reported ends
-- ARGV     position up to which ends were reported; as lists the cards that were opened, each
--          {record, ms}, and the records whose card was withdrawn
-- Returns  {'noted'}
local reported_cards = KEYS[1]
local reported_ends = KEYS[2]
local position = ARGV[1]
local opened = cjson.decode(ARGV[2])
local withdrawn = cjson.decode(ARGV[3])

redis.call('SET', reported_ends, position)
for _, card in ipairs(opened) do
  redis.call('ZADD', reported_cards, card[2], card[1])
end
for _, record in ipairs(withdrawn) do
  redis.call('ZREM', reported_cards, record)
end
return {'noted'}
