/** What went through each node of the ledger, by the minute in which a call began; minute -1 is the sum of all. It stays when the
 *  session that spent it is purged. Caps that were set at a door, and those that were raised for a period.
 *  An idempotency key counts for one actor and one provider. */
export const ledger = `
create table ledger (
  node text not null,
  simulated integer not null,
  minute integer not null,
  nanos integer not null,
  primary key (node, simulated, minute)
) strict, without rowid;
insert into ledger select 'owner', simulated, -1, sum(cost_nanos) from usage group by simulated;
insert into ledger select 'owner', simulated, unixepoch(day) / 60, sum(cost_nanos) from usage group by day, simulated;

create table cap (
  node text not null,
  span text not null,
  nanos integer not null,
  primary key (node, span)
) strict, without rowid;
create table raise (
  node text not null,
  simulated integer not null,
  span text not null,
  period integer not null,
  nanos integer not null,
  primary key (node, simulated, span)
) strict, without rowid;

alter table usage add column input integer not null default 0;
alter table usage add column output integer not null default 0;
alter table usage add column cache_read integer not null default 0;
alter table usage add column cache_write integer not null default 0;

update session_key set key = (select provider from session where id = session_id) || ':' || key;
update prompt set key = (select json_extract(body, '$.actor') from event
    where event.session_id = prompt.session_id and type = 'prompt.queued' and json_extract(body, '$.id') = prompt.id)
  || ':' || (select provider from session where id = prompt.session_id) || ':' || key
where key is not null;
`
