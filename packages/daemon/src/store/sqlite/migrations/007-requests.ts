/** Requests outlive whoever asked, and what was allowed is kept until it is used. Whoever was answered before has heard it. */
export const requests = `
alter table request add column digest text;
alter table request add column pins text not null default '[]';
alter table request add column why text;
alter table request add column rule text;
alter table request add column rule_refused text;
alter table request add column raises text not null default '[]';
alter table request add column expires_at integer;
alter table request add column deferred integer not null default 0;
alter table request add column answered_from text;
alter table request add column told integer not null default 0;
update request set told = 1 where answer is not null;
create index request_untold on request (session_id) where answer is not null and told = 0;

create table grant (
  request_id text primary key,
  session_id text not null,
  kind text not null,
  digest text not null,
  pins text not null,
  scope text not null,
  rule text,
  expires_at integer,
  actor text not null,
  used_at integer
) strict;
create index grant_unused on grant (session_id) where used_at is null;

update session set standing = json_set(standing, '$.asked', json('[]'), '$.left', json('[]'), '$.requests',
  (select count(*) from request where session_id = session.id and answer is null));
`
