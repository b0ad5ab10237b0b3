mod world;
