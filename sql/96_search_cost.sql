-- Costs of one machine, until pgrag.calibrate() measures those of this one.
insert into pgrag_data.search_cost (part, microseconds) values ('document', 3), ('vector', 0.7), ('block', 1200)
  on conflict on constraint search_cost_pkey do nothing;
