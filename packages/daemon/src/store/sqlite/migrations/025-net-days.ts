/** What went through net windows is summed up by day as it comes: over all that ever did, it took longer with every event. */
export const netDays = `
create table net_day (
  session_id text not null,
  day integer not null,
  host text not null,
  port integer not null,
  connections integer not null,
  bytes_out integer not null,
  bytes_in integer not null,
  blocked integer not null,
  why text,
  last_at integer not null,
  primary key (session_id, day, host, port)
) strict, without rowid;
create index net_day_day on net_day (day);

create table net_secret (
  session_id text not null,
  day integer not null,
  host text not null,
  port integer not null,
  name text not null,
  count integer not null,
  primary key (session_id, day, host, port, name)
) strict, without rowid;
create index net_secret_day on net_secret (day);

insert into net_day
  select session_id, at / 86400000, coalesce(json_extract(body, '$.host'), ''), coalesce(json_extract(body, '$.port'), 0),
    sum(json_extract(body, '$.connections')), sum(json_extract(body, '$.bytes_out')), sum(json_extract(body, '$.bytes_in')),
    sum(json_extract(body, '$.blocked')), substr(max(printf('%020d', pos) || json_extract(body, '$.why')), 21), max(at)
  from event where type = 'net' group by 1, 2, 3, 4;
insert into net_secret
  select session_id, at / 86400000, coalesce(json_extract(body, '$.host'), ''), coalesce(json_extract(body, '$.port'), 0),
    json_extract(secret.value, '$.name'), sum(json_extract(secret.value, '$.count'))
  from event, json_each(body, '$.secrets') as secret where event.type = 'net' group by 1, 2, 3, 4, 5;

drop index event_net;
create index event_net on event (at) where type = 'net';
`
