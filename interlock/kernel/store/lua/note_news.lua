-- Notes what was reported of a partition, so that it is no news any more.
-- KEYS     reported_cards, reported_ends
-- ARGV     position, opened..., withdrawn...
-- Returns  {'noted'}
-- Ends were reported up to `position`. Each opened card is {record, ms}; of a withdrawn one it is
-- the record.
redis.call('SET', reported_ends, plan.position)
for _, card in ipairs(plan.opened) do
  redis.call('ZADD', reported_cards, card[2], card[1])
end
for _, record in ipairs(plan.withdrawn) do
  redis.call('ZREM', reported_cards, record)
end
return {'noted'}
